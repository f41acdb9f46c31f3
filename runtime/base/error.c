/* SPDX-License-Identifier: Apache-2.0 */
/* Filling a caller's kvh_error. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

void kvh_error_set(struct kvh_error *error, kvh_status status, const char *format, ...)
{
	/* Built aside, because the arguments may hold the text that error has now. */
	char text[KVH_ERROR_TEXT_BYTES];
	va_list args;

	if (!error)
		return;
	va_start(args, format);
	kvh_text_line(text, sizeof(text), format, args);
	va_end(args);
	error->status = status;
	memcpy(error->text, text, strlen(text) + 1);
}
