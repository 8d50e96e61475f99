/** What was acknowledged, and what therefore must be there. */
import type pg from 'pg';

/** A record that one writer works on. */
export interface Entry {
  /** Its place in the cluster beside its id: two rows with one mark are one write done twice. */
  readonly mark: string;
  id: string | undefined;
  /** Changes that were acknowledged. Each counts `n` and the version up by one. */
  changes: number;
  deleted: boolean;
  /** The last write about it got no answer: it may have happened or not. */
  open: boolean;
}

export type Kind =
  | 'create'
  | 'createMany'
  | 'update'
  | 'delete'
  | 'login'
  | 'logout'
  | 'grant'
  | 'revoke';

export interface Journal {
  readonly acknowledged: Record<Kind, number>;
  readonly entries: Set<Entry>;
  /** Requests that were answered with 500. */
  readonly internal: string[];
  /** Answers that were no longer true when they were given. */
  readonly stale: string[];
  /** Tokens of sessions whose end was acknowledged. */
  readonly endedTokens: string[];
  probes: number;
  hostile: number;
}

export const createJournal = (): Journal => ({
  acknowledged: {
    create: 0,
    createMany: 0,
    update: 0,
    delete: 0,
    login: 0,
    logout: 0,
    grant: 0,
    revoke: 0,
  },
  entries: new Set(),
  internal: [],
  stale: [],
  endedTokens: [],
  probes: 0,
  hostile: 0,
});

export const writesOf = ({ acknowledged }: Journal): number =>
  Object.values(acknowledged).reduce((sum, count) => sum + count, 0);

export interface Findings {
  /** Acknowledged, and not there. */
  readonly lost: readonly string[];
  /** Done more often than it was asked for. */
  readonly doubled: readonly string[];
  /** Acknowledged changes without an event, with two, or positions with a gap. */
  readonly events: readonly string[];
}

interface Row {
  readonly id: string;
  readonly mark: string;
  readonly n: number;
  readonly version: number;
}

/** Compares the journal with what is stored, past the platform. Everything must have been published. */
export async function verify(journal: Journal, database: pg.Client): Promise<Findings> {
  const { rows } = await database.query<Row>(
    'select _id::text as id, mark, n::int as n, "__v" as version from app."Entry"',
  );
  const byMark = Map.groupBy(rows, ({ mark }) => mark);
  const found = [...journal.entries].map((entry) => compare(entry, byMark.get(entry.mark) ?? []));
  return {
    lost: found.flatMap(({ lost }) => lost),
    doubled: found.flatMap(({ doubled }) => doubled),
    events: await verifyEvents(journal, database),
  };
}

function compare(
  entry: Entry,
  rows: readonly Row[],
): { readonly lost: readonly string[]; readonly doubled: readonly string[] } {
  const [row] = rows;
  const name = `${entry.mark} (${entry.id ?? 'not acknowledged'})`;
  if (rows.length > 1) return { lost: [], doubled: [`${name} was created ${rows.length} times`] };
  if (entry.deleted)
    return { lost: row ? [`${name} is there after it was deleted`] : [], doubled: [] };
  if (!row)
    return { lost: entry.id === undefined || entry.open ? [] : [`${name} is gone`], doubled: [] };
  const most = entry.changes + (entry.open ? 1 : 0);
  return {
    lost: row.n < entry.changes ? [`${name} has ${row.n} of ${entry.changes} changes`] : [],
    doubled:
      row.n > most || row.version > most
        ? [`${name} was changed ${row.version} times, acknowledged ${entry.changes}`]
        : [],
  };
}

const eventsText = `
  select id, count(*) filter (where operation = 'insert')::int as inserts, count(*) filter (where operation = 'update')::int as updates,
    count(*) filter (where operation = 'delete')::int as deletes
  from penstock.outbox, unnest(ids) id where schema = 'Entry' group by id`;
/** Ranges of positions that do not begin where the one before them ended. */
const gapsText = `
  select first_position as first, before from (
    select first_position, lag(last_position) over (order by last_position) as before from penstock.outbox_pages) p
  where before is not null and first_position <> before + 1 limit 5`;

interface Told {
  readonly id: string;
  readonly inserts: number;
  readonly updates: number;
  readonly deletes: number;
}

async function verifyEvents(journal: Journal, database: pg.Client): Promise<readonly string[]> {
  const { rows } = await database.query<Told>(eventsText);
  const told = new Map(rows.map((row) => [row.id, row]));
  const gaps = await database.query<{ first: string; before: string }>(gapsText);
  const wrong = [...journal.entries].flatMap((entry) =>
    entry.id === undefined || entry.open ? [] : wrongEvents(entry, told.get(entry.id)),
  );
  return [
    ...wrong,
    ...gaps.rows.map(({ first, before }) => `after position ${before} comes ${first}`),
  ];
}

function wrongEvents({ id, changes, deleted }: Entry, told: Told | undefined): readonly string[] {
  const expected = { inserts: 1, updates: changes, deletes: deleted ? 1 : 0 };
  const { inserts = 0, updates = 0, deletes = 0 } = told ?? {};
  const same =
    inserts === expected.inserts && updates === expected.updates && deletes === expected.deletes;
  return same
    ? []
    : [
        `${id}: told ${JSON.stringify({ inserts, updates, deletes })}, happened ${JSON.stringify(expected)}`,
      ];
}
