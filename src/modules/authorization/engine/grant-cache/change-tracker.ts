/**
 * Follows what is written about permissions, so that what was read once can be
 * kept for as long as it is true. Nothing rests on messages between nodes: each
 * question asks the database what changed since the last one, while its own
 * statement is already on the way.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Queryable } from '../../../../kernel/database/database.ts';
import { statementName } from '../../../../kernel/database/sql.ts';
import { arrayText } from '../../tuple-sql.ts';

/** What the database said when it was asked last. */
export interface DatabaseSnapshot {
  /** Of the resource definitions. */
  readonly revision: number;
  /** The clock of the database, ms since 1970. */
  readonly now: number;
}

/** Up to where everything has been told: what stood then stands for as long as `guardText` is true. */
export interface ChangeCursor {
  readonly snapshot: string;
  readonly server: string;
  /** By the clock of the database, ms since 1970: until then it can be told what changed since. */
  readonly until: number;
}

interface ChangeTracker {
  /** Absent before the first answer, and when it is time to ask again. */
  position(): ChangeCursor | undefined;
  /**
   * Answers when everything that was committed before the call has been told to the keeper. Rejects when the database
   * cannot be asked; what is kept must not be used then. Callers at the same time share a statement.
   */
  catchUp(): Promise<DatabaseSnapshot>;
}

/** Whoever keeps something that hangs on tuples. */
interface ChangeListener {
  /** Types of resources; from the statement on that is sent now, changes about them are told. */
  types(): readonly string[];
  /** The tuples of these subjects (`Type:id`) changed. */
  changed(subjects: readonly string[]): void;
  /** Anything may have changed. */
  everythingChanged(): void;
}

/** More changes at once than this are not told one by one. */
const TOLD = 1_000;

/** A position is used for so long; what changed after it stays noted for longer than that (`deleteOldChanges`). */
const POSITION_MS = 20 * 60_000;

/**
 * Another one after a restart, a failover or a restore: then the numbers of transactions start anew, and snapshots from
 * before mean nothing.
 */
const server = `pg_postmaster_start_time()::text || ' ' || 'penstock.tuple_changes'::regclass::oid`;
const now = 'extract(epoch from now()) * 1000';
const revision = '(select coalesce(max(revision), 0) from penstock.resource_definition_versions)';

/**
 * Changes `c` about types that a snapshot has not seen. They are the last of the index; without the order the planner
 * believes that any of a large table would do, and reads it from its beginning.
 */
const changesSince = (
  snapshot: string,
  types: string,
  max: number,
): string => `unnest((select ${types}::text[])) w(type) cross join lateral (
  select * from penstock.tuple_changes h
   where h.resource_type = w.type and h.xid >= pg_snapshot_xmin((select ${snapshot}::pg_snapshot))
     and not pg_visible_in_snapshot(h.xid, (select ${snapshot}::pg_snapshot))
   order by h.xid limit ${max}) c`;
const isComplete = (snapshot: string): string =>
  `(select s.kept_from from penstock.tuple_change_state s) <= pg_snapshot_xmin((select ${snapshot}::pg_snapshot))`;

const text = `select pg_current_snapshot()::text as snapshot, ${server} as server, ${now} as now, ${revision} as revision,
  ${isComplete('$1')} as complete,
  (select json_agg(x.subject) from (
    select distinct case c.resource_type when '*' then '*' else c.subject_type || ':' || c.subject_id end as subject
      from ${changesSince('$1', '$2', TOLD * 10)}
     limit ${TOLD + 1}) x) as changed`;
const name = statementName(text);

/** What something rests on that stood at a position. */
export interface CursorGuard extends ChangeCursor {
  /** Of the resource definitions. */
  readonly revision: number;
  /** Types of resources whose tuples it rests on. */
  readonly types: readonly string[];
}

/** Whether both are true at the same moments; of no guard, that nothing is asked. */
export const isSameGuard = (
  one: CursorGuard | undefined,
  other: CursorGuard | undefined,
): boolean =>
  one === other ||
  (one !== undefined &&
    other !== undefined &&
    one.snapshot === other.snapshot &&
    one.until === other.until &&
    one.types === other.types &&
    one.revision === other.revision &&
    one.server === other.server);

/** Of types whose changes are asked for, those of all beside them; made once for each list, which a model keeps. */
const typesTexts = new WeakMap<readonly string[], string>();

function typesText(types: readonly string[]): string {
  const known = typesTexts.get(types) ?? arrayText([...types, '*']);
  typesTexts.set(types, known);
  return known;
}

/** Mostly the same one for many questions. */
let lastMoment = { ms: 0, text: '' };

function momentText(ms: number): string {
  if (lastMoment.ms !== ms) lastMoment = { ms, text: new Date(ms).toISOString() };
  return lastMoment.text;
}

/** How many values `guardText` compares with. */
export const GUARD_VALUES = 5;

/** What `guardText` compares with, in its order. */
export const guardValues = ({
  snapshot,
  server: known,
  until,
  revision: last,
  types,
}: CursorGuard): readonly unknown[] => [known, momentText(until), last, typesText(types), snapshot];

/**
 * True while it stands: an expression for the statement that makes use of it. Its text is always the same. Values stand
 * in sub-selects, where the planner does not look at them: it keeps one plan.
 */
export const guardText = (guard: CursorGuard, next: (value: unknown) => string): string =>
  guardTextWith(guardValues(guard).map(next));

/** The same with these placeholders for the values. */
export function guardTextWith(places: readonly string[]): string {
  const [known, until, last, types, snapshot] = places;
  return (
    `(${server} = ${known}::text and now() < ${until}::timestamptz` +
    ` and not exists (select 1 from penstock.resource_definition_versions v where v.revision > (select ${last}::bigint))` +
    ` and not exists (select 1 from ${changesSince(snapshot ?? '', types ?? '', 1)}))`
  );
}

interface ChangeAnswer {
  readonly snapshot: string;
  readonly server: string;
  readonly now: string;
  readonly complete: boolean | null;
  readonly revision: string;
  readonly changed: readonly string[] | null;
}

export function createChangeTracker(database: Queryable, keeper: ChangeListener): ChangeTracker {
  // Questions share what is asked here: it must not become part of the transaction that one of them runs in.
  const outside = AsyncLocalStorage.snapshot();
  let position: (ChangeCursor & { readonly at: number }) | undefined;
  let running: Promise<DatabaseSnapshot> | undefined;
  let next: Promise<DatabaseSnapshot> | undefined;

  async function ask(): Promise<DatabaseSnapshot> {
    const values = [position?.snapshot ?? null, [...keeper.types(), '*']];
    const { rows } = await database.query<ChangeAnswer>({ name, text, values, class: 'short' });
    const [news] = rows;
    if (!news) throw new Error('The database did not answer what changed');
    tell(news);
    return { revision: Number(news.revision), now: Number(news.now) };
  }

  function tell({ snapshot, server, now, complete, changed }: ChangeAnswer): void {
    const known = position !== undefined && complete === true && position.server === server;
    if (!known || (changed && (changed.length > TOLD || changed.includes('*'))))
      keeper.everythingChanged();
    else if (changed) keeper.changed(changed);
    position = { snapshot, server, until: Number(now) + POSITION_MS, at: performance.now() };
  }

  /** One at a time, each from where the one before ended. It is sent after everybody who asks right now. */
  function begin(): Promise<DatabaseSnapshot> {
    const asked = outside(() => Promise.resolve().then(() => ask()));
    running = asked;
    const end = (): void => {
      running = undefined;
    };
    asked.then(end, end);
    return asked;
  }

  return {
    position: () =>
      position && performance.now() - position.at < POSITION_MS / 2 ? position : undefined,
    catchUp() {
      if (!running) return begin();
      // What is being asked may have been answered before this call; the next one is not.
      next ??= running
        .catch(() => undefined)
        .then(() => {
          next = undefined;
          return running ?? begin();
        });
      return next;
    },
  };
}
