/*-------------------------------------------------------------------------
 *
 * rose_component_page.c
 *	  Pages of a component: whose they are, of which kind, and how those that are not
 *	  multicolumn begin.
 *
 * Every page says in its header which component it belongs to and what it is.  A page
 * that says something else is an error, never an answer.  No locks beyond those of the
 * buffer manager.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_block.h"
#include "lsm/component/rose_component_internal.h"

void
rose_component_check_page_kind(Relation rel, BlockNumber block, uint8 kind,
							   const char *page)
{
	const RosePageHeaderDisk *header = rose_page_header_const(page);

	if (header->magic != ROSE_PAGE_MAGIC || header->kind != kind)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block %u of relation \"%s\" is of kind %u, expected %u",
						block, RelationGetRelationName(rel), header->kind, kind)));
	if (header->version != ROSE_PAGE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("block %u of relation \"%s\" has page format version %u, this rose reads %u",
						block, RelationGetRelationName(rel), header->version, ROSE_PAGE_VERSION),
				 errhint("Install the release of rose that wrote the table.")));
}

void
rose_component_read_page(Relation rel, uint32 component_id, BlockNumber block,
						 uint8 kind, char *dst, BufferAccessStrategy strategy)
{
	rose_block_read_owned(rel, block, component_id, dst, strategy);
	rose_component_check_page_kind(rel, block, kind, dst);
}

void
rose_component_init_page(char *page, uint32 component_id, uint8 kind)
{
	RosePageHeaderDisk *header;

	PageInit((Page) page, BLCKSZ, 0);
	header = rose_page_header(page);
	header->magic = ROSE_PAGE_MAGIC;
	header->version = ROSE_PAGE_VERSION;
	header->kind = kind;
	header->component_id = component_id;
	header->prev = InvalidBlockNumber;
	header->next = InvalidBlockNumber;
	rose_component_set_page_end(page, ROSE_PAGE_BODY);
}

/* pd_lower must cover the data: what lies in the hole is not logged. */
void
rose_component_set_page_end(char *page, Size end)
{
	((PageHeader) page)->pd_lower = (LocationIndex) end;
}
