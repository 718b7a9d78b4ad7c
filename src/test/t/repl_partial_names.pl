# A row whose newest version is a PARTIAL in a run, found by its key: what is done to it is done to that row, and to no other. Such versions are
# changes of a table that has columns of its own here.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no versions that are not whole' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.spill_interval = '1h'", 'autovacuum = off');
my $by_key = 'SET enable_seqscan = off; SET enable_bitmapscan = off';

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

up('CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 9) g; CREATE PUBLICATION p FOR TABLE t');
down('CREATE TABLE t (id int PRIMARY KEY, v int, here int DEFAULT 0) USING rose');
subscribe($upstream, $replica);
no_merge_workers($replica);
up('UPDATE t SET v = id');
wait_for_apply($upstream, $replica);
down("SELECT rose.spill('t')");

my $session = RoseTest::Session->new($replica);
is($session->run("$by_key; BEGIN; SELECT id, v, here FROM t WHERE id = 5 FOR UPDATE"), '5|5|0', 'a row is locked');
is(down("$by_key; SELECT string_agg(id::text, ' ') FROM (SELECT id FROM t WHERE id > 0 FOR UPDATE SKIP LOCKED) t"), '1 2 3 4 6 7 8 9', 'that one, and no other');
$session->end;

down("SELECT rose.drop_subscription('s')");
down("$by_key; UPDATE t SET here = 7 WHERE id = 5; DELETE FROM t WHERE id = 6");
is(down("SELECT string_agg(concat_ws(':', id, v, here), ' ' ORDER BY id) FROM t"), '1:1:0 2:2:0 3:3:0 4:4:0 5:5:7 7:7:0 8:8:0 9:9:0', 'rows are changed and deleted by their keys');
is(down("SELECT string_agg(msg, '; ') FROM rose.check('t')"), '', 'sound');

$replica->stop;
$upstream->stop;
done_testing();
