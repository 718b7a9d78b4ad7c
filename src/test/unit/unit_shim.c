/*-------------------------------------------------------------------------
 *
 * unit_shim.c
 *	  Stands in for the server: memory contexts, error reports, PageInit.
 *
 * Each chunk is a malloc of its own, so that address sanitizer and valgrind see
 * its exact bounds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufpage.h"
#include "utils/memutils.h"

#include "unit.h"

/* ---- Memory ---- */

typedef struct Context
{
	struct Context *parent;
	struct Context *first_child;
	struct Context *next_sibling;
	struct Chunk *chunks;
} Context;

typedef struct Chunk
{
	Context    *context;
	struct Chunk *prev;
	struct Chunk *next;
	Size		size;
} Chunk;

#define CHUNK_HEADER	MAXALIGN(sizeof(Chunk))

static Context top_context;

MemoryContext TopMemoryContext = (MemoryContext) &top_context;
MemoryContext CurrentMemoryContext = (MemoryContext) &top_context;

static void
out_of_memory(void)
{
	fprintf(stderr, "out of memory\n");
	exit(2);
}

static void
link_chunk(Context *context, Chunk *chunk)
{
	chunk->context = context;
	chunk->prev = NULL;
	chunk->next = context->chunks;
	if (chunk->next != NULL)
		chunk->next->prev = chunk;
	context->chunks = chunk;
}

static void
unlink_chunk(Chunk *chunk)
{
	if (chunk->prev != NULL)
		chunk->prev->next = chunk->next;
	else
		chunk->context->chunks = chunk->next;
	if (chunk->next != NULL)
		chunk->next->prev = chunk->prev;
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	Chunk	   *chunk;

	if (size > MaxAllocSize)
		elog(ERROR, "invalid memory alloc request size %zu", size);
	chunk = malloc(CHUNK_HEADER + size);
	if (chunk == NULL)
		out_of_memory();
	chunk->size = size;
	link_chunk((Context *) context, chunk);
	memset((char *) chunk + CHUNK_HEADER, 0x7f, size);
	return (char *) chunk + CHUNK_HEADER;
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return memset(MemoryContextAlloc(context, size), 0, size);
}

void *
palloc(Size size)
{
	return MemoryContextAlloc(CurrentMemoryContext, size);
}

void *
palloc0(Size size)
{
	return MemoryContextAllocZero(CurrentMemoryContext, size);
}

void
pfree(void *pointer)
{
	Chunk	   *chunk = (Chunk *) ((char *) pointer - CHUNK_HEADER);

	unlink_chunk(chunk);
	free(chunk);
}

void *
repalloc(void *pointer, Size size)
{
	Chunk	   *old = (Chunk *) ((char *) pointer - CHUNK_HEADER);
	void	   *result = MemoryContextAlloc((MemoryContext) old->context, size);

	memcpy(result, pointer, Min(size, old->size));
	pfree(pointer);
	return result;
}

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name,
							  Size minContextSize, Size initBlockSize, Size maxBlockSize)
{
	Context    *context = calloc(1, sizeof(Context));

	if (context == NULL)
		out_of_memory();
	context->parent = (Context *) parent;
	context->next_sibling = context->parent->first_child;
	context->parent->first_child = context;
	return (MemoryContext) context;
}

void
MemoryContextReset(MemoryContext memory_context)
{
	Context    *context = (Context *) memory_context;

	while (context->first_child != NULL)
		MemoryContextDelete((MemoryContext) context->first_child);
	while (context->chunks != NULL)
		pfree((char *) context->chunks + CHUNK_HEADER);
}

void
MemoryContextDelete(MemoryContext memory_context)
{
	Context    *context = (Context *) memory_context;
	Context   **link = &context->parent->first_child;

	MemoryContextReset(memory_context);
	while (*link != context)
		link = &(*link)->next_sibling;
	*link = context->next_sibling;
	free(context);
}

char *
psprintf(const char *format,...)
{
	char		buffer[1024];
	va_list		args;
	char	   *result;

	va_start(args, format);
	vsnprintf(buffer, sizeof(buffer), format, args);
	va_end(args);
	result = palloc(strlen(buffer) + 1);
	strcpy(result, buffer);
	return result;
}

/* ---- Errors ---- */

sigjmp_buf *unit_catcher;
int			unit_error_code;

static int	error_level;
static char error_message[1024];

const char *
unit_error_message(void)
{
	return error_message;
}

bool
errstart(int elevel, const char *domain)
{
	error_level = elevel;
	unit_error_code = ERRCODE_INTERNAL_ERROR;
	error_message[0] = '\0';
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	if (error_level < ERROR)
		return;
	if (unit_catcher != NULL)
		siglongjmp(*unit_catcher, 1);
	fprintf(stderr, "%s:%d: %s: %s\n", filename, lineno, funcname, error_message);
	exit(2);
}

int
errcode(int sqlerrcode)
{
	unit_error_code = sqlerrcode;
	return 0;
}

static void
set_message(const char *format, va_list args)
{
	vsnprintf(error_message, sizeof(error_message), format, args);
}

int
errmsg(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	set_message(format, args);
	va_end(args);
	return 0;
}

int
errmsg_internal(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	set_message(format, args);
	va_end(args);
	return 0;
}

int
errdetail(const char *format,...)
{
	return 0;
}

int
errdetail_internal(const char *format,...)
{
	return 0;
}

int
errhint(const char *format,...)
{
	return 0;
}

/* ---- Pages ---- */

void
PageInit(Page page, Size pageSize, Size specialSize)
{
	PageHeader	header = (PageHeader) page;

	memset(page, 0, pageSize);
	header->pd_lower = SizeOfPageHeaderData;
	header->pd_upper = (LocationIndex) (pageSize - specialSize);
	header->pd_special = (LocationIndex) (pageSize - specialSize);
	PageSetPageSizeAndVersion(page, pageSize, PG_PAGE_LAYOUT_VERSION);
}
