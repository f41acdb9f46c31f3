#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutants of the shared pool: copies of one source file, each without one lock or order.

    shared_mutants.py RUNTIME/POOL OUT

Writes OUT/NAME/FILE for each, and prints "NAME=FILE" lines. A text that the source doesn't hold
exactly once is refused, so that a mutant can't become the program itself unnoticed.

Not here is what ThreadSanitizer can't see: the ring and the slots' fields are atomics, of which no
order is a race, and it doesn't know fences. The crowd judges those by what it reads.
"""
import pathlib
import sys

# Name -> (file, [(text, replacement)]).
MUTANTS = {
    # The mutation lock: had by everybody; had, but without what its last holder wrote.
    "lock_free_for_all": ("local/shm_lock.c", [
        ("	if (spin_for_word(word, own))", "	if (spin_for_word(word, own) || true)")]),
    "lock_taken_relaxed": ("local/shm_lock.c", [
        ("word, &free_word, own, memory_order_acquire, memory_order_relaxed",
         "word, &free_word, own, memory_order_relaxed, memory_order_relaxed"),
        ("atomic_compare_exchange_strong(word, &value, own | WAITERS))\n\t\t\treturn true;\n\t\t*holder",
         "atomic_compare_exchange_strong_explicit(word, &value, own | WAITERS, "
         "memory_order_relaxed, memory_order_relaxed))\n\t\t\treturn true;\n\t\t*holder")]),
    "lock_given_relaxed": ("local/shm_lock.c", [
        ("atomic_exchange_explicit(word, 0, memory_order_release)",
         "atomic_exchange_explicit(word, 0, memory_order_relaxed)")]),
    # Who opens and closes alone takes the whole area as plain memory.
    "gate_open": ("local/shm.c", [
        ("	while (!kvh_byte_lock(local->shared->file.fd, KVH_BYTE_GATE)) {",
         "	while (false && !kvh_byte_lock(local->shared->file.fd, KVH_BYTE_GATE)) {")]),
    # S-3: bytes before the commit word, and ordered by it.
    "commit_relaxed": ("core/core.c", [
        ("	if (!kvh_slot_move(slot, ref->ctl, valid))",
         "	if (!atomic_compare_exchange_strong_explicit(&slot->ctl, &(uint64_t){ref->ctl}, "
         "valid, memory_order_relaxed, memory_order_relaxed))"),
        ("atomic_compare_exchange_weak(&slot->use, &use, wanted)",
         "atomic_compare_exchange_weak_explicit(&slot->use, &use, wanted, "
         "memory_order_relaxed, memory_order_relaxed)")]),
    "commit_before_copy": ("local/put.c", [
        ("	fill(put, turn);\n",
         "	if (!(put->options->flags & KVH_PUT_HOLD))\n\t\tcommit(put, turn);\n"
         "	fill(put, turn);\n"),
        ("	if (!(put->options->flags & KVH_PUT_HOLD))\n\t\tcommit(put, turn);\n"
         "	for (size_t i = 0; i < turn->count; i++)\n\t\tput->batch",
         "	for (size_t i = 0; i < turn->count; i++)\n\t\tput->batch")]),
    # S-4: no extent is granted while a pin names it, and a pin is held until the copy is over.
    "pins_unseen": ("core/evict.c", [
        ("		if (kvh_slot_is_pinned(&core->area, slots[i]))", "		if (false)"),
        ("pinned = kvh_slot_is_pinned(&core->area, slots[i]);", "pinned = false;")]),
    "unpinned_before_copy": ("local/get.c", [
        ("	for (size_t i = 0; i < turn->batch.count; i++)\n\t\tturn->batch.results[i].value = get_one",
         "	kvh_core_unpin(core, &turn->pins);\n"
         "	for (size_t i = 0; i < turn->batch.count; i++)\n\t\tturn->batch.results[i].value = get_one"),
        ("	kvh_core_touch(core, turn->pins.refs, turn->batch.count, now_unit);\n"
         "	kvh_core_unpin(core, &turn->pins);\n",
         "	kvh_core_touch(core, turn->pins.refs, turn->batch.count, now_unit);\n")]),
    # The scratch of a handle is of one scan at a time.
    "filling_shared": ("core/victims.c", [
        ("	if (atomic_exchange(&core->filling, true))",
         "	if (atomic_exchange(&core->filling, true) && false)")]),
    # A prefix record is whole before the count says that it is there.
    "prefix_count_relaxed": ("core/prefixes.c", [
        ("atomic_store_explicit(&area->super->prefix_count, id + 1, memory_order_release)",
         "atomic_store_explicit(&area->super->prefix_count, id + 1, memory_order_relaxed)")]),
}


def mutate(text, changes):
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{text.count(old)} times, not once: {old.strip()}")
        text = text.replace(old, new)
    return text


def main(pool, out):
    for name, (file, changes) in MUTANTS.items():
        try:
            text = mutate((pool / file).read_text(encoding="utf-8"), changes)
        except ValueError as error:
            print(f"shared_mutants.py: {name}: {file}: {error}", file=sys.stderr)
            return 1
        path = out / name / pathlib.Path(file).name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Untouched if it is the same: then nothing is built again.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        print(f"{name}={file}")
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
