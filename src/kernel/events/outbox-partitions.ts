/** The outbox as tables that are only appended to, and emptied as a whole. */
import type { Queryable } from '../database/database.ts';

/** Partitions of the outbox. They are written in turn; the one in use is the value of the sequence `outbox_bucket`. */
export const BUCKETS = 8;

export const bucketTable = (bucket: number): string => `penstock.outbox_${bucket}`;

/**
 * `xid` is the transaction that wrote the event: a snapshot tells by it what was committed when. `seq` is the order of
 * insertion. Nothing updates or deletes a row, so the partitions need no vacuum. The partition that takes new rows is
 * read from a sequence: to change it is no DDL, waits for nobody and holds for the next row of every connection.
 */
const tables = [
  'create sequence penstock.outbox_seq_seq',
  `create sequence penstock.outbox_bucket as integer minvalue 0 maxvalue ${BUCKETS - 1} cycle`,
  `select setval('penstock.outbox_bucket', 0)`,
  `create table penstock.outbox (
    seq bigint not null default nextval('penstock.outbox_seq_seq'),
    xid xid8 not null default pg_current_xact_id(),
    occurred_at timestamptz(3) not null default now(),
    bucket smallint not null default pg_sequence_last_value('penstock.outbox_bucket'),
    topic text not null,
    schema text,
    operation text,
    actor text not null,
    ids text[],
    payload jsonb
  ) partition by list (bucket)`,
  ...Array.from(
    { length: BUCKETS },
    (
      _,
      bucket,
    ) => `create table ${bucketTable(bucket)} partition of penstock.outbox for values in (${bucket})
      with (autovacuum_enabled = false, toast.autovacuum_enabled = false)`,
  ),
  'create index outbox_by_transaction on penstock.outbox (xid, seq)',
];

/**
 * `outbox_pages`: which events have which positions. Those of a page are the rows from (`from_xid`, `from_seq`) to
 * (`to_xid`, `to_seq`) that `after` sees and `before` does not, in this order; where `by_seq` is set (`orderPages`), those
 * of the transactions and the numbers between, in the order of the numbers. `outbox_state.snapshot` is what the last
 * page saw; `last_seq` the highest number among published rows; `cluster` the database server that gave the transaction
 * ids. `outbox_buckets`: the highest position in each partition, and when it was given; null when nothing is in it.
 */
const positions = [
  `create table penstock.outbox_pages (
    last_position bigint primary key,
    first_position bigint not null,
    from_xid xid8 not null,
    from_seq bigint not null,
    to_xid xid8 not null,
    to_seq bigint not null,
    before pg_snapshot not null,
    after pg_snapshot not null
  )`,
  `create table penstock.outbox_buckets (
    bucket smallint primary key,
    opened_at timestamptz(3) not null default now(),
    last_position bigint,
    published_at timestamptz(3)
  ) with (fillfactor = 50)`,
  `insert into penstock.outbox_buckets (bucket) select generate_series(0, ${BUCKETS - 1})`,
  `alter table penstock.outbox_state
    add column snapshot pg_snapshot, add column last_seq bigint not null default 0, add column cluster text`,
];

/** Published rows of before that stay readable by position; whoever is further behind resynchronises. */
const CARRIED = 1_000_000;
/** A transaction id below all that PostgreSQL gives: of rows that were published before pages were kept. */
const OLD = '1';
const PAGE = 1_000;

const columns = 'topic, schema, ids, operation, payload, actor, occurred_at';

/**
 * Takes over what the outbox held until now. Published rows keep their positions. What waited is written as new rows of
 * this transaction, which the snapshot does not see, nor what other transactions write at this moment.
 */
const takeOver = [
  `insert into penstock.outbox (xid, ${columns})
    select '${OLD}'::xid8, ${columns} from penstock.outbox_before
     where position > (select last_position - ${CARRIED} from penstock.outbox_state) order by position`,
  `insert into penstock.outbox_pages (last_position, first_position, from_xid, from_seq, to_xid, to_seq, before, after)
    select s.first + max(o.n), s.first + min(o.n), '${OLD}', min(o.seq), '${OLD}', max(o.seq), '1:1:', '2:2:'
      from (select seq, row_number() over (order by seq) as n, count(*) over () as total from penstock.outbox) o
      cross join lateral (select last_position - o.total as first from penstock.outbox_state) s
     group by s.first, (o.n - 1) / ${PAGE}`,
  `update penstock.outbox_state set last_seq = coalesce((select max(seq) from penstock.outbox), 0),
    purged_position = coalesce((select min(first_position) - 1 from penstock.outbox_pages), last_position)`,
  `update penstock.outbox_buckets set last_position = s.last_position, published_at = now()
     from penstock.outbox_state s where bucket = 0 and exists (select from penstock.outbox_pages)`,
  `insert into penstock.outbox (${columns}) select ${columns} from penstock.outbox_before where position is null order by seq`,
  `update penstock.outbox_state set cluster = (select system_identifier::text from pg_control_system()), snapshot = (
    select format('%s:%s:%s', least(pg_snapshot_xmin(h.snapshot), h.own), greatest(pg_snapshot_xmax(h.snapshot), h.next),
        (select string_agg(x::text, ',' order by x) from (select pg_snapshot_xip(h.snapshot) union select h.own) running(x)))::pg_snapshot
      from (select pg_current_snapshot() as snapshot, pg_current_xact_id() as own,
        (pg_current_xact_id()::text::bigint + 1)::text::xid8 as next) h)`,
  'alter table penstock.outbox_state alter column snapshot set not null, alter column cluster set not null',
];

export async function partitionOutbox(database: Queryable): Promise<void> {
  const texts = [
    'alter table penstock.outbox rename to outbox_before',
    'alter sequence penstock.outbox_seq_seq rename to outbox_before_seq_seq',
    ...tables,
    ...positions,
    ...takeOver,
    'drop table penstock.outbox_before',
  ];
  for (const text of texts) await database.query({ text });
}

/** Pages of before keep the order that their positions were given in. */
export const orderPages = [
  'alter table penstock.outbox_pages add column by_seq boolean not null default false',
];
