/*-------------------------------------------------------------------------
 *
 * fuzz_footer.c
 *	  Footers of components of any content: rose_component_open.
 *
 * Input: a byte that picks the table's schema, a byte that says how much of a page the
 * footer's pages have, then the footer's stream.  The pages and their chain are
 * made here, and so are the magic number, the component's id and the stream's length
 * if the first byte has the high bit.  What was opened is read by those who take its
 * word: the key range and the Bloom filter's extents.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "catalog/pg_type.h"
#include "lsm/component/rose_component_internal.h"
#include "miscadmin.h"
#include "util/rose_key_internal.h"
#include "util/rose_layout.h"

#define COMPONENT_ID 7

static const uint8 *stream;
static Size stream_size;
static Size page_fill;
static volatile uint64 looked_at;

/* ---- in place of the server ---- */

volatile sig_atomic_t InterruptPending = false;

void
ProcessInterrupts(void)
{
}

bool
TransactionIdIsInProgress(TransactionId xid)
{
	return (xid & 1) != 0;
}

bool
TransactionIdDidCommit(TransactionId xid)
{
	return (xid & 2) != 0;
}

/* The filter's pages are nobody's here. */
bool
rose_filter_ask_suits(RoseComponent *component, Relation rel)
{
	return false;
}

/* Nothing is put aside here. */
void
rose_filter_ask_drop_copy(RoseComponent *component)
{
}

void
MemoryContextSetParent(MemoryContext context, MemoryContext new_parent)
{
}

/* Block n is the n-th part of the stream; if the fill is odd, block 0 is a leaf with that part behind its rows. */
void
rose_block_read_owned(Relation rel, BlockNumber block, uint32 owner, char *dst,
					  BufferAccessStrategy strategy)
{
	Size		from = (Size) block * page_fill;
	Size		n;

	if (from >= stream_size)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block %u is not there", block)));
	n = Min(page_fill, stream_size - from);
	PageInit((Page) dst, BLCKSZ, 0);
	rose_component_init_page(dst, owner, ROSE_PAGE_FOOTER);
	rose_page_header(dst)->next = block + 1;
	if (block == 0 && page_fill % 2 == 1)
	{
		Size		special = BLCKSZ - MAXALIGN(n);

		rose_page_header(dst)->kind = ROSE_PAGE_LEAF;
		((PageHeader) dst)->pd_special = ((PageHeader) dst)->pd_upper = (LocationIndex) special;
		memcpy(dst + special, stream + from, n);
		return;
	}
	memcpy(dst + ROSE_PAGE_BODY, stream + from, n);
	rose_component_set_page_end(dst, ROSE_PAGE_BODY + n);
}

/* ---- tables ---- */

typedef struct FuzzTable
{
	int			natts;
	int			nkeys;
	struct
	{
		Oid			typid;
		int16		attlen;
		bool		attbyval;
		char		attalign;
	}			columns[4];
	int			keys[2];		/* from 0 */
} FuzzTable;

static const FuzzTable tables[] = {
	{2, 1, {{INT4OID, 4, true, TYPALIGN_INT}, {TEXTOID, -1, false, TYPALIGN_INT}}, {0}},
	{2, 0, {{INT8OID, 8, true, TYPALIGN_DOUBLE}, {TEXTOID, -1, false, TYPALIGN_INT}}, {0}},
	{3, 2, {{TEXTOID, -1, false, TYPALIGN_INT}, {INT8OID, 8, true, TYPALIGN_DOUBLE},
	{UUIDOID, 16, false, TYPALIGN_CHAR}}, {0, 2}},
	{4, 2, {{NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR}, {INT2OID, 2, true, TYPALIGN_SHORT},
	{FLOAT8OID, 8, true, TYPALIGN_DOUBLE}, {BOOLOID, 1, true, TYPALIGN_CHAR}}, {1, 0}},
};

static TupleDesc
make_tupdesc(const FuzzTable *table)
{
	TupleDesc	desc = palloc0(offsetof(struct TupleDescData, attrs) +
							   table->natts * sizeof(FormData_pg_attribute));

	desc->natts = table->natts;
	for (int i = 0; i < table->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		att->atttypid = table->columns[i].typid;
		att->attlen = table->columns[i].attlen;
		att->attbyval = table->columns[i].attbyval;
		att->attalign = table->columns[i].attalign;
		att->attnum = (AttrNumber) (i + 1);
	}
	return desc;
}

static RoseSchema *
make_schema(const FuzzTable *table)
{
	RoseSchema *schema = palloc0(sizeof(RoseSchema));

	schema->context = fuzz_context();
	schema->tupdesc = make_tupdesc(table);
	schema->layout = rose_layout_make(schema->tupdesc);
	schema->natts = table->natts;
	schema->nkeys = table->nkeys;
	for (int i = 0; i < table->nkeys; i++)
	{
		RoseKeyColumn *key = &schema->keys[i];
		int			column = table->keys[i];

		key->def.attno = (int16) (column + 1);
		key->def.opcintype = table->columns[column].typid;
		key->attlen = table->columns[column].attlen;
		key->attbyval = table->columns[column].attbyval;
		key->int_order = key->attbyval;
	}
	return schema;
}

/* ---- the target ---- */

/* What others do with an open component without looking at its pages. */
static void
use_component(const RoseSchema *schema, RoseComponent *component)
{
	for (int j = 0; j < rose_schema_key_width(schema); j++)
	{
		bool		byval = schema->nkeys == 0 || schema->keys[j].attbyval;
		int16		attlen = schema->nkeys == 0 ? 8 : schema->keys[j].attlen;
		const char *bytes = DatumGetPointer(component->min_key[j]);
		Size		n = byval ? 0 : attlen > 0 ? attlen : VARSIZE_ANY(bytes);

		for (Size i = 0; i < n; i++)
			looked_at += bytes[i];
	}
	for (int i = 0; i < component->nextents; i++)
		looked_at += component->extents[i].first + component->extents[i].nblocks;
	for (int i = 0; i < component->nparts; i++)
	{
		const RoseFilterPart *part = &component->parts[i];

		looked_at += rose_filter_part_page(component, part, 0) +
			rose_filter_part_page(component, part,
								  (part->shape.nblocks - 1) / component->bloom_per_page);
	}
	for (int i = 0; i < component->ncols; i++)
		looked_at += component->descs[i].attlen + component->descs[i].kind;
}

static void
open_component(const RoseSchema *schema)
{
	RoseComponentEntryDisk entry = {0};
	RoseComponent *component;

	entry.id = COMPONENT_ID;
	entry.nrows = 1;
	component = rose_component_open(NULL, schema, &entry, fuzz_context());
	use_component(schema, component);
	rose_component_close(component);
}

int
LLVMFuzzerTestOneInput(const uint8 *data, Size size)
{
	volatile bool failed;
	RoseSchema *schema;
	uint8	   *copy;

	if (size < 2 + sizeof(RoseFooterDisk))
		return 0;
	fuzz_begin(data, size);
	schema = make_schema(&tables[(data[0] & 0x7f) % lengthof(tables)]);
	page_fill = sizeof(RoseFooterDisk) +
		data[1] * (ROSE_PAGE_BODY_SIZE - sizeof(RoseFooterDisk)) / 255;
	stream_size = size - 2;
	copy = palloc(stream_size);
	memcpy(copy, data + 2, stream_size);
	if (data[0] & 0x80)
	{
		RoseFooterDisk footer;

		memcpy(&footer, copy, sizeof(footer));
		footer.magic = ROSE_FOOTER_MAGIC;
		footer.header_bytes = sizeof(RoseFooterDisk);
		footer.component_id = COMPONENT_ID;
		footer.total_bytes = (uint32) stream_size;
		memcpy(copy, &footer, sizeof(footer));
	}
	stream = copy;
	UNIT_CATCH(failed, open_component(schema));
	if (failed)
		fuzz_check_error();
	fuzz_end();
	return 0;
}
