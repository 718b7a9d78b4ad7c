/*-------------------------------------------------------------------------
 *
 * rose_verify.h
 *	  Comparing a subscription's tables with the upstream's, at one position.
 *
 * For the SQL function, and for the files that do it: rose_verify.c has the snapshots and says
 * what is compared, rose_verify_table.c compares one table, rose_verify_query.c asks both sides.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VERIFY_H
#define ROSE_VERIFY_H

#include "postgres.h"

#include "utils/snapshot.h"
#include "utils/timestamp.h"

#include "repl/rose_repl.h"

/* Something that is not as it should be, or that was not compared. */
typedef struct RoseVerifyProblem
{
	const char *nspname;
	const char *relname;
	const char *key;			/* the row's, as text; NULL: it is of the table, or of many rows */
	int64		upstream_rows;	/* -1: not known */
	int64		replica_rows;
	const char *problem;
} RoseVerifyProblem;

typedef struct RoseVerifyOptions
{
	List	   *relids;			/* NIL: all tables */
	int			timeout_s;		/* for reaching the position */
	int64		max_keys;		/* of one table that are named */
	void		(*report) (void *arg, const RoseVerifyProblem *problem);
	void	   *arg;
} RoseVerifyOptions;

/* REQUIRES: a READ COMMITTED transaction, of who may change the subscription. */
extern void rose_verify_subscription(const RoseSubscription *sub, const RoseVerifyOptions *options);

/* What rose_repair_table has done. */
typedef struct RoseRepairResult
{
	int64		inserted;
	int64		updated;
	int64		deleted;
	List	   *keys;			/* of char *: of all these rows, as text */
	int64		left;			/* that differ, by changes of kinds that are not published */
	bool		more;			/* other rows differ, too */
} RoseRepairResult;

/*
 * Rows of one table become as they are upstream: those with these keys (of char *, as rose_verify_subscription names
 * them), or NIL: those that it names.  Done, and durable, when it returns, whatever becomes of the transaction.
 * REQUIRES: as above.
 */
extern void rose_repair_table(const RoseSubscription *sub, Oid relid, List *keys, int timeout_s, int64 max_keys,
							  RoseRepairResult *result);

/* ---------------------------------------------------------------------
 * Among the files
 */

/* What one side is asked with. */
typedef struct RoseVerifySide
{
	char	   *source;			/* what follows FROM */
	char	   *row;			/* of all columns that are compared, as text */
	char	   *key;			/* of the key, as text; NULL: there is none */
} RoseVerifySide;

typedef struct RoseVerifyTable
{
	Oid			relid;
	Oid			owner;
	char	   *nspname;
	char	   *relname;
	RoseUpstreamTable remote;
	RoseUpstreamColumns columns;	/* there, that are published */
	char	   *problem;		/* why it is not compared, or NULL */
	int			ncompared;		/* of these columns, places of those that are compared, and ... */
	int		   *compared;
	int			nkeys;			/* ... among those, places of the key's */
	int		   *keys;
	Oid		   *key_types;		/* here, and ... */
	AttrNumber *key_attnums;	/* ... which these are */
	List	   *locked;			/* it and its partitions, as far as they are locked here for the comparison */
	RoseVerifySide upstream;
	RoseVerifySide here;
	int64		expected_rows;	/* 0: not known */
} RoseVerifyTable;

typedef struct RoseVerify
{
	const RoseSubscription *sub;
	const RoseVerifyOptions *options;
	TimestampTz deadline;
	struct WalReceiverConn *conn;
	Snapshot	snapshot;		/* here; that of the upstream is its transaction's */
	XLogRecPtr	lsn;			/* of both */
	bool		other_encoding; /* texts are hashed in another one than the database's */
	List	   *tables;			/* of RoseVerifyTable */
	bool		(*at_position) (struct RoseVerify *verify); /* done while the worker stands still, instead of comparing; false:
														 * begin anew */
	void	   *arg;
} RoseVerify;

/* rose_verify.c: a position is reached, and something else is done there than to compare. */
extern void rose_verify_run(RoseVerify *verify, const RoseSubscription *sub, const RoseVerifyOptions *options);

/* rose_verify_table.c */
extern void rose_verify_table_compare(RoseVerify *verify, const RoseVerifyTable *table);
extern void rose_verify_table_report(RoseVerify *verify, const RoseVerifyTable *table, const char *key,
									 int64 upstream_rows, int64 replica_rows, const char *problem);

/*
 * rose_verify_query.c: the settings by which both sides write values; each row of a query, of so many text columns (NULL
 * for NULL), goes to a function.
 */
#define ROSE_VERIFY_COLUMNS 3

typedef void (*RoseVerifyRow) (void *arg, char **values);

extern void rose_verify_query_set_up(RoseVerify *verify);

/*
 * Does an upstream's text of a value tell all of it?  Floats of before 12 are compared to 15 digits, for both sides
 * write them alike so.  Then have it write the following queries' exactly, or as they are compared.
 */
extern bool rose_verify_query_is_exact(const RoseVerify *verify);
extern void rose_verify_query_write_exactly(RoseVerify *verify, bool exactly);
extern void rose_verify_query_upstream(RoseVerify *verify, const char *sql, int ncols, RoseVerifyRow row, void *arg);
extern void rose_verify_query_here(RoseVerify *verify, Oid owner, const char *sql, int ncols, RoseVerifyRow row, void *arg);

#endif							/* ROSE_VERIFY_H */
