# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML page: no script, nothing from the network, light and dark."""
import html

import rules

STYLE = """
:root { color-scheme: light dark; --ink: #1d232b; --soft: #5b6673; --line: #d6dbe1; --page: #fff;
  --good: #1a7f4b; --bad: #b3261e; --bar: #3b6fb6; --rail: #e8ecf1; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #98a3b1; --line: #36404c;
  --page: #14181d; --good: #58c98b; --bad: #ff8a80; --bar: #6fa3e8; --rail: #262e38; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.soft, span.soft { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem;
  margin-top: 1.4rem; }
.tile { border: 1px solid var(--line); border-radius: .5rem; padding: .7rem .9rem; }
.tile b { display: block; font-size: 1.45rem; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .28rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { font-weight: 600; color: var(--soft); } td.n, th.n { text-align: right;
  font-variant-numeric: tabular-nums; }
.good { color: var(--good); } .bad { color: var(--bad); }
.rail { background: var(--rail); height: .6rem; border-radius: .3rem; min-width: 6rem; }
.rail i { display: block; background: var(--bar); height: 100%; border-radius: .3rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { overflow-x: auto; }
details { margin-top: .6rem; } summary { cursor: pointer; }
"""


def esc(value):
    return html.escape(str(value))


def table(head, rows):
    """head: names; one that starts with # is a column of numbers. rows: cells, already HTML."""
    numeric = [name.startswith("#") for name in head]
    out = ['<div class="scroll"><table><tr>']
    out += [f'<th{" class=n" if n else ""}>{esc(name.lstrip("#"))}</th>'
            for name, n in zip(head, numeric)]
    out.append("</tr>")
    for row in rows:
        out.append("<tr>" + "".join(f'<td{" class=n" if n else ""}>{cell}</td>'
                                    for cell, n in zip(row, numeric)) + "</tr>")
    out.append("</table></div>")
    return "".join(out)


def bar(share):
    return f'<div class="rail"><i style="width:{100 * share:.1f}%"></i></div>'


def percent(share):
    """A file without branches has no percentage of them."""
    return "nothing to cover" if share["percent"] is None else f'{share["percent"]:.1f} %'


def percent_of(share):
    return f'{percent(share)} <span class="soft">({share["covered"]}/{share["total"]})</span>'


def tile(figure, words, good=None):
    """good: True or False where the figure is judged, None where it only informs."""
    kind = {True: "good", False: "bad", None: ""}[good]
    return f'<div class="tile"><b class="{kind}">{figure}</b>{words}</div>'


def tiles(report):
    functions = sum(row["functions"] for row in report["labels"].values())
    failed, points = len(report["failures"]), report["fault_points"]
    fired = sum(point["fired_in"] > 0 for point in points)
    total = report["rules"]["summary"][-1]
    line, branch = (report["coverage"]["all"][kind] for kind in ("line", "branch"))
    return '<div class="tiles">' + "".join([
        tile(f"{functions - failed} / {functions}", "test functions passed", failed == 0),
        tile(f"{total[2]} / {total[1] - total[4]}", "rules covered, of those that are ours",
             False if report["rules"]["problems"] else None),
        tile(f"{fired} / {len(points)}", "fault points fired", fired == len(points)),
        tile(percent(line), "of lines covered"),
        tile(percent(branch), "of branches covered")]) + "</div>"


def tests_part(report):
    longest = max(row["seconds"] for row in report["labels"].values()) or 1
    rows = [(esc(label), row["programs"], row["functions"], row["failed"], row["skipped"],
             f'{row["seconds"]:.1f}', bar(row["seconds"] / longest))
            for label, row in sorted(report["labels"].items())]
    out = "<h2>Tests</h2>" + table(["label", "#programs", "#functions", "#failed", "#skipped",
                                    "#seconds", ""], rows)
    for failure in report["failures"]:
        out += (f'<p class="bad">{esc(failure["program"])}: {esc(failure["name"])}</p>'
                f'<pre>{esc(failure["text"])}</pre>')
    return out


def rules_part(report):
    part = report["rules"]
    pages = {rules.family(rule["rule"]): rule["page"] for rule in part["table"]}
    out = "<h2>Rules</h2>" + table(
        ["family", "page of docs/spec", "#rules", "#covered", "#due", "#outside",
         "#cited, still due"],
        [[esc(row[0]), esc(pages.get(row[0], "")), *row[1:]] for row in part["summary"]])
    if part["problems"]:
        out += '<ul class="bad">' + "".join(f"<li>{esc(p)}</li>" for p in part["problems"]) + "</ul>"
    if part["not_judged"]:
        out += f'<p class="soft">{part["not_judged"]} citations stand in slow tests: make long.</p>'
    rows = [(esc(rule["rule"]), f'<span class="{"good" if rule["state"] == "covered" else ""}">'
             f'{esc(rule["state"])}</span>', esc(f'part {rule["note"]}' if rule["state"] == "due"
                                                 else rule["note"]),
             "<br>".join(f"<code>{esc(test)}</code>" for test in rule["tests"]))
            for rule in part["table"]]
    return (out + "<details><summary>every rule</summary>"
            + table(["rule", "state", "who", "tests that prove it"], rows) + "</details>")


def faults_part(report):
    rows = [(f'<code>{esc(point["name"])}</code>',
             point["fired_in"] or '<span class="bad">never fired</span>')
            for point in report["fault_points"]]
    return ("<h2>Fault points</h2><p class=soft>Places where a test can make the runtime fail, and "
            "in how many test programs each did.</p>" + table(["point", "#programs"], rows))


def coverage_part(report):
    coverage = report["coverage"]
    groups = [(name, percent_of(coverage[name]["line"]), percent_of(coverage[name]["branch"]))
              for name in ("all", "worker and store", "rest")]
    files = [(f"<code>{esc(name)}</code>", percent_of(entry["line"]), percent_of(entry["branch"]))
             for name, entry in sorted(coverage["files"].items())]
    head = ["", "#lines", "#branches"]
    return ("<h2>Coverage</h2>" + table(head, groups) + "<details><summary>every file</summary>"
            + table(head, files) + "</details>")


def render(report):
    commit = report["commit"]
    changed = (f', <span class="bad">{commit["changed_files"]} files changed since</span>'
               if commit["changed_files"] else "")
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" '
            f'content="width=device-width"><title>kvhold: test report</title><style>{STYLE}</style>'
            f'<h1>kvhold: test report</h1><p class="soft">commit <code>{esc(commit["id"][:12])}'
            f'</code> of {esc(commit["date"])}{changed}; {esc(report["compiler"])}; made again by '
            f'<code>make report</code></p>{tiles(report)}{tests_part(report)}{rules_part(report)}'
            f'{faults_part(report)}{coverage_part(report)}</html>\n')
