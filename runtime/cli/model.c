/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of the modelled engine's caches, and its one note of what went wrong first. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>

/*
 * Bytes are scaled down from a real model's (tens of MB a block) so that the demo fits a small
 * machine; token counts are the trace's own. The block counts let the longest prompts of the trace
 * run, and make the scheduler preempt when several of them meet.
 */
const struct kvh_engine_group kvh_engine_groups[KVH_ENGINE_GROUPS] = {
	{.kind = KVH_ATTENTION_FULL,
         .block_tokens = 512,
         .region_count = 4,
         .region_bytes = 16384,
         .block_count = 320},
	{.kind = KVH_ATTENTION_SLIDING_WINDOW,
         .block_tokens = 1024,
         .window_tokens = 2048,
         .region_count = 2,
         .region_bytes = 32768,
         .block_count = 128},
};

void kvh_engine_note(struct kvh_engine *engine, const char *format, ...)
{
	va_list words;

	if (engine->note[0])
		return;
	va_start(words, format);
	vsnprintf(engine->note, sizeof(engine->note), format, words);
	va_end(words);
}
