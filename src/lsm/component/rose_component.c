/*-------------------------------------------------------------------------
 *
 * rose_component.c
 *	  Opening a component: footer, key range, and pages read with checks.
 *
 * The handle is backend-local and immutable but for the root page, which is read on first
 * use, and a copy of the Bloom filter (rose_filter_ask.c).  Everything on disk below a
 * footer never changes as long as the component is pinned, so no lock is held between
 * calls.
 *
 * See rose_component_format.h for the layout.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"

#include "store/rose_manifest.h"
#include "lsm/component/rose_component_internal.h"

/* ---- pages ---- */

void
rose_component_read_inner(const RoseComponent *component, Relation rel, BlockNumber block,
						  char *image, RosePageReader *reader)
{
	rose_page_reader_close(reader);
	rose_component_read_page(rel, component->info.entry.id, block, ROSE_PAGE_INNER, image, NULL);
	rose_page_reader_init(reader, image);
	if (rose_page_reader_nrows(reader) == 0 ||
		rose_page_reader_ncols(reader) != component->ninnercols)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("inner page at block %u of component %u is malformed",
						block, component->info.entry.id)));
}

/* ---- footer ---- */

static void
footer_corrupted(const RoseComponentEntryDisk *entry, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("bad footer of component %u at block %u", entry->id, entry->footer_block),
			 errdetail_internal("%s", detail)));
}

static void
footer_check_header(const RoseFooterDisk *footer, const RoseComponentEntryDisk *entry,
					const RoseSchema *schema)
{
	if (footer->magic != ROSE_FOOTER_MAGIC)
		footer_corrupted(entry, "The magic number is wrong.");
	if (footer->version < ROSE_COMPONENT_OLDEST_VERSION ||
		footer->version > ROSE_COMPONENT_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("component %u has format version %u, this rose reads %u to %u",
						entry->id, footer->version, ROSE_COMPONENT_OLDEST_VERSION,
						ROSE_COMPONENT_VERSION),
				 errhint("Install the release of rose that wrote the table.")));
	if (footer->component_id != entry->id)
		footer_corrupted(entry, "It belongs to another component.");
	if (footer->header_bytes != sizeof(RoseFooterDisk) ||
		footer->nsyscols != ROSE_SYSCOLS ||
		footer->ngroups != 1 ||
		footer->total_bytes < sizeof(RoseFooterDisk) ||
		footer->total_bytes > ROSE_FOOTER_MAX_BYTES)
		footer_corrupted(entry, "A count is out of range.");
	if ((footer->natts > schema->natts && footer->version < ROSE_COMPONENT_LAYOUT_VERSION) ||
		footer->nkeys != schema->nkeys)
		footer_corrupted(entry, "Its columns are not those of the table.");
}

/* What a page has of the stream; *n: so many bytes, or some more. */
static const char *
footer_part(Relation rel, const RoseComponentEntryDisk *entry, BlockNumber block,
			const char *page, int *n)
{
	const char *extra;

	if (block != entry->footer_block || rose_page_header_const(page)->kind != ROSE_PAGE_LEAF)
	{
		rose_component_check_page_kind(rel, block, ROSE_PAGE_FOOTER, page);
		*n = (int) ((const PageHeaderData *) page)->pd_lower - (int) ROSE_PAGE_BODY;
		if (*n <= 0 || *n > (int) ROSE_PAGE_BODY_SIZE)
			footer_corrupted(entry, "A page of it is empty.");
		return page + ROSE_PAGE_BODY;
	}
	rose_component_check_page_kind(rel, block, ROSE_PAGE_LEAF, page);
	extra = rose_page_extra(page, n);
	if (extra == NULL)
		footer_corrupted(entry, "The leaf has none.");
	return extra;
}

/* Read the whole stream into context.  *page_end: see rose_page_end. */
static char *
footer_read(Relation rel, const RoseSchema *schema, const RoseComponentEntryDisk *entry,
			MemoryContext context, int *page_end)
{
	PGAlignedBlock page;
	BlockNumber block = entry->footer_block;
	RoseFooterDisk header;
	char	   *stream = NULL;
	Size		at = 0;
	Size		total = sizeof(RoseFooterDisk);

	while (at < total)
	{
		const char *part;
		int			n;

		CHECK_FOR_INTERRUPTS();
		if (block == InvalidBlockNumber)
			footer_corrupted(entry, "It ends too early.");
		rose_block_read_owned(rel, block, entry->id, page.data, NULL);
		part = footer_part(rel, entry, block, page.data, &n);
		if (stream == NULL)
		{
			if (n < (int) sizeof(header))
				footer_corrupted(entry, "It ends too early.");
			memcpy(&header, part, sizeof(header));
			footer_check_header(&header, entry, schema);
			*page_end = rose_page_end(page.data);
			total = header.total_bytes;
			stream = MemoryContextAlloc(context, MAXALIGN(total));
		}
		n = (int) Min(total - at, (Size) n);
		memcpy(stream + at, part, n);
		at += n;
		block = rose_page_header(page.data)->next;
	}
	return stream;
}

/* NULL: there is no such section; *length in bytes. */
static char *
footer_find_section(const RoseComponent *component, char *stream, RoseFooterSection type,
					Size *length)
{
	const RoseFooterDisk *footer = &component->footer;
	const RoseComponentEntryDisk *entry = &component->info.entry;
	RoseFooterSectionDisk *sections =
		(RoseFooterSectionDisk *) (stream + sizeof(RoseFooterDisk));

	if (footer->nsections >
		(footer->total_bytes - sizeof(RoseFooterDisk)) / sizeof(RoseFooterSectionDisk))
		footer_corrupted(entry, "The section directory is too long.");
	for (int i = 0; i < footer->nsections; i++)
	{
		if (sections[i].type != type)
			continue;
		if (sections[i].offset > footer->total_bytes ||
			sections[i].offset != MAXALIGN(sections[i].offset) ||
			sections[i].length > footer->total_bytes - sections[i].offset)
			footer_corrupted(entry, "A section is out of range.");
		*length = sections[i].length;
		return stream + sections[i].offset;
	}
	return NULL;
}

/* A section that must be there. */
static char *
footer_section(const RoseComponent *component, char *stream, RoseFooterSection type,
			   Size *length)
{
	char	   *section = footer_find_section(component, stream, type, length);

	if (section == NULL)
		footer_corrupted(&component->info.entry, "A section is missing.");
	return section;
}

/*
 * Has nobody but merges, which drop them, any use for its rows?  Their keys are compared
 * until then.  Either its transaction was rolled back, or all of them are of
 * subtransactions, of which that which had added the columns was.
 */
static bool
is_left_over(const RoseComponentEntryDisk *entry, const RoseFooterDisk *footer)
{
	TransactionId xid = XidFromFullTransactionId(FullTransactionIdFromU64(entry->owner_xid));

	if ((entry->flags & ROSE_COMPONENT_PRIVATE) == 0)
		return false;
	if (footer->nwriters == footer->nrows)
		return true;
	return (entry->flags & ROSE_COMPONENT_OWNERS) == 0 &&
		!TransactionIdIsInProgress(xid) && !TransactionIdDidCommit(xid);
}

static bool
key_agrees(const RoseSchema *schema, const RoseLayout *stored)
{
	for (int j = 0; j < schema->nkeys; j++)
	{
		AttrNumber	attno = schema->keys[j].def.attno;

		if (attno > stored->natts ||
			stored->columns[attno - 1].attlen != schema->keys[j].attlen)
			return false;
	}
	return true;
}

/*
 * A transaction that was rolled back may have added columns before it wrote, and others
 * may be in their places now: then false, and of its rows only keys may be read.
 */
static bool
layout_agrees(const RoseComponentEntryDisk *entry, const RoseFooterDisk *footer,
			  const RoseSchema *schema, const RoseLayoutColumnDisk *columns)
{
	int			natts = footer->natts;

	if (natts <= schema->natts && rose_layout_agrees(schema->layout, columns, natts))
		return true;
	if (is_left_over(entry, footer) &&
		key_agrees(schema, rose_layout_from_columns(columns, natts)))
		return false;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("component %u at block %u stores its columns in another way than the catalog says",
					entry->id, entry->footer_block),
			 errhint("Restore the catalog and the table's file from the same backup.")));
}

/* How columns were stored when it was built; NULL: it does not say. */
static const RoseLayoutColumnDisk *
footer_layout(RoseComponent *component, const RoseSchema *schema, char *stream)
{
	const RoseFooterDisk *footer = &component->footer;
	const RoseComponentEntryDisk *entry = &component->info.entry;
	const RoseLayoutColumnDisk *columns;
	Size		length;

	if (footer->version < ROSE_COMPONENT_LAYOUT_VERSION)
		return NULL;
	columns = (RoseLayoutColumnDisk *) footer_section(component, stream, ROSE_SECTION_LAYOUT,
													  &length);
	if (length != footer->natts * sizeof(RoseLayoutColumnDisk) ||
		!rose_layout_is_sane(columns, footer->natts))
		footer_corrupted(entry, "The columns are described wrongly.");
	component->info.keys_only = !layout_agrees(entry, footer, schema, columns);
	return columns;
}

/* Whose rows a private run has: several transactions', or the one that the manifest names. */
static void
footer_load_owners(RoseComponent *component, char *stream)
{
	RoseComponentInfo *info = &component->info;
	Size		length;

	info->owners = (uint64 *) footer_find_section(component, stream, ROSE_SECTION_OWNERS,
												  &length);
	if (info->owners != NULL)
		info->nowners = length / sizeof(uint64);
	else if (info->entry.flags & ROSE_COMPONENT_PRIVATE)
	{
		info->owners = &info->entry.owner_xid;
		info->nowners = 1;
	}
	if ((info->entry.flags & ROSE_COMPONENT_OWNERS) && info->nowners < 2)
		footer_corrupted(&info->entry, "The transactions of a private run are missing.");
}

static void
footer_load_bloom(RoseComponent *component, char *stream)
{
	const RoseFooterDisk *footer = &component->footer;
	uint64		npages = 0;
	char	   *parts;
	Size		length;

	component->extents = (RoseExtentDisk *) footer_section(component, stream,
														   ROSE_SECTION_BLOOM_EXTENTS, &length);
	component->nextents = length / sizeof(RoseExtentDisk);
	for (int i = 0; i < component->nextents; i++)
		npages += component->extents[i].nblocks;
	parts = footer_find_section(component, stream, ROSE_SECTION_FILTER_PARTS, &length);
	if (npages != footer->bloom_pages || !rose_filter_parts_load(component, parts, length))
		footer_corrupted(&component->info.entry, "The Bloom filter is described wrongly.");
}

static void
footer_load(RoseComponent *component, const RoseSchema *schema, char *stream)
{
	RoseFooterDisk *footer = &component->footer;
	RoseComponentInfo *info = &component->info;
	const RoseLayoutColumnDisk *stored;
	char	   *bytes;
	Size		length;

	memcpy(footer, stream, sizeof(RoseFooterDisk));
	info->natts = footer->natts;
	info->min_xid = FullTransactionIdFromU64(footer->min_xid);
	info->max_xid = FullTransactionIdFromU64(footer->max_xid);
	info->overflow_pages = footer->overflow_pages;
	info->bloom_pages = footer->bloom_pages;
	info->nwriters = footer->nwriters;

	bytes = footer_section(component, stream, ROSE_SECTION_COLUMN_GROUPS, &length);
	if (length < sizeof(RoseColumnGroupDisk))
		footer_corrupted(&info->entry, "The column group is missing.");
	memcpy(&component->group, bytes, sizeof(RoseColumnGroupDisk));
	info->leaf_pages = component->group.nleaves;
	info->inner_pages = component->group.ninner;
	component->ncols = ROSE_SYSCOLS + footer->natts;
	if (component->group.ncolumns != component->ncols ||
		component->group.height > ROSE_MAX_HEIGHT)
		footer_corrupted(&info->entry, "The column group is described wrongly.");

	stored = footer_layout(component, schema, stream);
	bytes = footer_section(component, stream, ROSE_SECTION_COLUMN_KINDS, &length);
	if (length != component->ncols)
		footer_corrupted(&info->entry, "The column kinds are too few.");
	component->descs = rose_leaf_column_descs(schema, footer->natts, (uint8 *) bytes,
											  stored, component->context);
	component->inner_descs = rose_inner_column_descs(schema, stored, &component->ninnercols,
													 component->context);

	bytes = footer_section(component, stream, ROSE_SECTION_MIN_KEY, &length);
	rose_key_read(schema, bytes, length, component->min_key, info->entry.id);
	bytes = footer_section(component, stream, ROSE_SECTION_MAX_KEY, &length);
	rose_key_read(schema, bytes, length, component->max_key, info->entry.id);
	info->min_key = component->min_key;
	info->max_key = component->max_key;

	footer_load_bloom(component, stream);
	footer_load_owners(component, stream);
}

RoseComponent *
rose_component_open(Relation rel, const RoseSchema *schema,
					const RoseComponentEntryDisk *entry, MemoryContext context)
{
	MemoryContext own = AllocSetContextCreate(context, "rose component",
											  ALLOCSET_SMALL_SIZES);
	RoseComponent *component = MemoryContextAllocZero(own, sizeof(RoseComponent));
	int			page_end = BLCKSZ;
	char	   *stream;

	component->context = own;
	component->schema = schema;
	component->info.entry = *entry;
	stream = footer_read(rel, schema, entry, own, &page_end);
	component->bloom_per_page = rose_bloom_blocks_of_page(page_end);
	footer_load(component, schema, stream);
	component->has_filter = component->nparts > 0;
	if (component->has_filter)
		component->has_filter = rose_filter_ask_suits(component, rel);
	return component;
}

void
rose_component_close(RoseComponent *component)
{
	MemoryContextDelete(component->context);
}

void
rose_component_retire(RoseComponent *component, MemoryContext context)
{
	rose_filter_ask_drop_copy(component);
	MemoryContextSetParent(component->context, context);
}

const RoseComponentInfo *
rose_component_info(const RoseComponent *component)
{
	return &component->info;
}

bool
rose_component_common_version(const RoseComponent *component, RoseVersion *version)
{
	const RoseFooterDisk *footer = &component->footer;

	if (footer->ntombstones > 0 || footer->npartials > 0 || footer->nwriters > 0 ||
		footer->min_xid != footer->max_xid || footer->min_seq != footer->max_seq)
		return false;
	memset(version, 0, sizeof(*version));
	version->xid = component->info.min_xid;
	version->seq = footer->min_seq;
	version->op = ROSE_OP_PUT;
	return true;
}

/* ---- range ---- */

bool
rose_component_in_range(const RoseComponent *component, const Datum *key)
{
	const RoseSchema *schema = component->schema;
	int			width = rose_schema_key_width(schema);

	return rose_key_compare(schema, key, component->min_key, width) >= 0 &&
		rose_key_compare(schema, key, component->max_key, width) <= 0;
}
