/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's outcome as one self-contained HTML page with charts drawn as SVG. */
#include "demo.h"

#include <errno.h>
#include <stdio.h>

enum { CHART_WIDTH = 640, CHART_HEIGHT = 200, MARGIN_LEFT = 48, MARGIN = 24, SERIES_MAX = 2 };

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width\"><title>kvhold "
	"demo</title>\n<style>\n"
	":root{color-scheme:light dark;--ink:#1b1f24;--soft:#6a737d;--line:#d8dde3;--page:#fff;"
	"--a:#0b62c4;--b:#c2570c;--good:#117a37;--bad:#b3161b}\n"
	"@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--soft:#98a2ad;--line:#363d46;"
	"--page:#14181d;--a:#62a8ff;--b:#f39a56;--good:#54c878;--bad:#ff7d77}}\n"
	"body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--page);"
	"max-width:44rem;margin:2rem auto;padding:0 1rem}\n"
	"h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}\n"
	"p{color:var(--soft);margin:.3rem 0}.verdict{font-weight:600;font-size:1.1rem}\n"
	".good{color:var(--good)}.bad{color:var(--bad)}\n"
	"table{border-collapse:collapse;width:100%}td{padding:.22rem 0;"
	"border-bottom:1px solid var(--line)}td:last-child{text-align:right;"
	"font-variant-numeric:tabular-nums}\n"
	"svg{width:100%;height:auto}text{fill:var(--soft);font-size:11px}\n"
	".axis{stroke:var(--line)}.s0,.s1{fill:none;stroke-width:1.8}.s0{stroke:var(--a)}"
	".s1{stroke:var(--b)}.k0{fill:var(--a)}.k1{fill:var(--b)}\n"
	"</style></head><body>\n";

/* One chart: series over requests done. */
struct chart {
	const char *title;
	const char *unit;
	const char *names[SERIES_MAX];
	double (*value[SERIES_MAX])(const struct kvh_engine_sample *before,
	                            const struct kvh_engine_sample *now);
	double top; /* of the axis; 0: from the data */
};

static double hit_percent(const struct kvh_engine_sample *before,
                          const struct kvh_engine_sample *now)
{
	(void)before;
	return 100 * kvh_demo_share(now->hit_tokens, now->lookup_tokens);
}

static double recent_hit_percent(const struct kvh_engine_sample *before,
                                 const struct kvh_engine_sample *now)
{
	return 100 * kvh_demo_share(now->hit_tokens - before->hit_tokens,
	                            now->lookup_tokens - before->lookup_tokens);
}

static double used_percent(const struct kvh_engine_sample *before,
                           const struct kvh_engine_sample *now)
{
	(void)before;
	return 100 * kvh_demo_share(now->used_bytes, now->capacity_bytes);
}

static double load_rate(const struct kvh_engine_sample *before, const struct kvh_engine_sample *now)
{
	return kvh_demo_rate(now->get_bytes - before->get_bytes, now->at_ns - before->at_ns);
}

static double save_rate(const struct kvh_engine_sample *before, const struct kvh_engine_sample *now)
{
	return kvh_demo_rate(now->put_bytes - before->put_bytes, now->at_ns - before->at_ns);
}

static const struct chart charts[] = {
	{"Lookup hit rate",
         "%",
         {"so far", "between samples"},
         {hit_percent, recent_hit_percent},
         0},
	{"Store in use", "% of capacity", {"used", NULL}, {used_percent, NULL}, 100},
	{"Bytes moved", "GB/s of run time", {"loaded", "saved"}, {load_rate, save_rate}, 0},
};

/* The next of 1, 2, 4 or 5 times a power of ten, so that the lines' labels are short. */
static double round_up(double value)
{
	static const double steps[] = {1, 2, 4, 5, 10};
	double unit = 1;
	size_t i = 0;

	while (unit * 10 < value)
		unit *= 10;
	while (unit > value)
		unit /= 10;
	while (steps[i] * unit < value && steps[i] < 10)
		i++;
	return steps[i] * unit;
}

static double chart_top(const struct chart *chart, const struct kvh_engine *engine)
{
	double top = chart->top;

	if (top > 0)
		return top;
	for (size_t s = 0; s < SERIES_MAX && chart->value[s]; s++)
		for (size_t i = 1; i < engine->sample_count; i++) {
			double value =
				chart->value[s](&engine->samples[i - 1], &engine->samples[i]);

			top = value > top ? value : top;
		}
	return top > 0 ? round_up(top) : 1;
}

static void write_axis(FILE *out, const struct chart *chart, double top, uint64_t requests)
{
	fprintf(out, "<h2>%s <small>(%s)</small></h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">\n",
	        chart->title, chart->unit, CHART_WIDTH, CHART_HEIGHT);
	for (int i = 0; i <= 4; i++) {
		int y = CHART_HEIGHT - MARGIN - i * (CHART_HEIGHT - 2 * MARGIN) / 4;

		fprintf(out,
		        "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>"
		        "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.3g</text>\n",
		        MARGIN_LEFT, CHART_WIDTH - MARGIN, y, y, MARGIN_LEFT - 6, y + 4,
		        top * i / 4);
	}
	fprintf(out,
	        "<text x=\"%d\" y=\"%d\">0</text>"
	        "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%llu requests finished</text>\n",
	        MARGIN_LEFT, CHART_HEIGHT - 6, CHART_WIDTH - MARGIN, CHART_HEIGHT - 6,
	        (unsigned long long)requests);
}

static void write_series(FILE *out, const struct chart *chart, size_t s,
                         const struct kvh_engine *engine, double top)
{
	double width = CHART_WIDTH - MARGIN_LEFT - MARGIN;
	double height = CHART_HEIGHT - 2 * MARGIN;
	uint64_t requests = engine->totals.requests_done;

	fprintf(out, "<polyline class=\"s%zu\" points=\"", s);
	for (size_t i = 1; i < engine->sample_count; i++) {
		const struct kvh_engine_sample *now = &engine->samples[i];
		double x = MARGIN_LEFT + width * kvh_demo_share(now->requests_done, requests);
		double y = CHART_HEIGHT - MARGIN - height * chart->value[s](now - 1, now) / top;

		fprintf(out, "%.1f,%.1f ", x, y);
	}
	fprintf(out, "\"/><text class=\"k%zu\" x=\"%zu\" y=\"14\">%s</text>\n", s,
	        MARGIN_LEFT + 8 + s * 120, chart->names[s]);
}

static void write_text(FILE *out, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*text, out);
		}
}

static void write_row(FILE *out, const char *name, double value, int digits, const char *unit)
{
	fprintf(out, "<tr><td>%s</td><td>%.*f%s</td></tr>\n", name, digits, value, unit);
}

static void write_table(FILE *out, const struct kvh_demo_result *result)
{
	const struct kvh_engine_totals *t = &result->engine->totals;

	fputs("<table>\n", out);
	write_row(out, "Requests finished", (double)t->requests_done, 0, "");
	write_row(out, "Run time", (double)t->elapsed_ns / 1e9, 1, " s");
	write_row(out, "Prompt tokens", (double)t->prompt_tokens, 0, "");
	write_row(out, "Lookup hit rate", 100 * kvh_demo_share(t->hit_tokens, t->lookup_tokens), 1,
	          " %");
	write_row(out, "Hit rate of an endless store",
	          100 * kvh_demo_share(result->reuse.reused_tokens, result->reuse.prompt_tokens), 1,
	          " %");
	write_row(out, "Loaded and compared", (double)result->counts.loaded_bytes / 1e9, 2, " GB");
	write_row(out, "Compared before give-back", (double)result->counts.checked_bytes / 1e9, 2,
	          " GB");
	write_row(out, "Wrong blocks", (double)result->counts.mismatched_blocks, 0, "");
	write_row(out, "Load, while a get runs", kvh_demo_rate(result->get_bytes, result->get_ns),
	          2, " GB/s");
	write_row(out, "Save, while a put runs", kvh_demo_rate(result->put_bytes, result->put_ns),
	          2, " GB/s");
	write_row(out, "Longest wait for a load", (double)result->counts.load_wait_ns_max / 1e6, 1,
	          " ms");
	write_row(out, "Preemptions", (double)t->preemptions, 0, "");
	write_row(out, "Failed blocks, computed again", (double)result->counts.failed_blocks, 0,
	          "");
	write_row(out, "Blocks evicted", (double)result->store.evicted_keys, 0, "");
	write_row(out, "Pressure episodes", (double)result->worker.pressure_episodes, 0, "");
	write_row(out, "Saves skipped under pressure",
	          (double)result->worker.save_jobs_pressure_skipped, 0, "");
	if (result->restart.done)
		write_row(out, "Hit rate after a restart, of the last requests once more",
		          100 * kvh_demo_share(result->restart.hit_tokens,
		                               result->restart.lookup_tokens),
		          1, " %");
	fputs("</table>\n", out);
}

static void write_top(FILE *out, const struct kvh_demo_result *result)
{
	fprintf(out, "%s<h1>kvhold demo</h1>\n", head);
	if (result->failures)
		fprintf(out,
		        "<p class=\"verdict bad\">FAILED: %llu wrong blocks or broken "
		        "promises</p>\n",
		        (unsigned long long)result->failures);
	else
		fprintf(out, "<p class=\"verdict good\">%s</p>\n",
		        result->counts.loaded_bytes ? "Every loaded byte was right"
		                                    : "Nothing was wrong, but no block was loaded");
	fprintf(out, "<p>kvhold %s; %u ranks, full attention and sliding window; seed %llu; trace ",
	        kvh_version_text(), result->engine->config.rank_count,
	        (unsigned long long)result->engine->config.seed);
	write_text(out, kvh_demo_trace_name(result));
	fputs("; store ", out);
	write_text(out, result->store_url);
	fprintf(out,
	        ". Host memory stands in for GPU memory; blocks are scaled down to %zu KiB a "
	        "rank.</p>\n",
	        kvh_engine_block_bytes(&kvh_engine_groups[0]) / 1024);
}

bool kvh_demo_write_report(const struct kvh_demo_result *result, const char *path)
{
	const struct kvh_engine *engine = result->engine;
	FILE *out = fopen(path, "w");
	bool failed;

	if (!out)
		return false;
	write_top(out, result);
	write_table(out, result);
	for (size_t i = 0; i < sizeof(charts) / sizeof(charts[0]); i++) {
		double top = chart_top(&charts[i], engine);

		write_axis(out, &charts[i], top, engine->totals.requests_done);
		for (size_t s = 0; s < SERIES_MAX && charts[i].value[s]; s++)
			write_series(out, &charts[i], s, engine, top);
		fputs("</svg>\n", out);
	}
	if (engine->neighbour_came)
		fputs("<p>While few requests were done, a neighbour reserved all of the store on "
		      "purpose: saves met &ldquo;no space&rdquo; until it gave the space "
		      "back.</p>\n",
		      out);
	fputs("</body></html>\n", out);
	failed = ferror(out);
	return fclose(out) == 0 && !failed;
}
