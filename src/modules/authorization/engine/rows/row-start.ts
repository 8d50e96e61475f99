/**
 * Where the rows that somebody sees begin in the order of the ids, when thousands are taken away from them in front of all
 * others. It is found from tuples alone, whatever rows there are, and kept until tuples of their subjects about the type
 * change: a page by ids need not pass all of that each time.
 */
import type { Queryable } from '../../../../kernel/database/database.ts';
import type {
  CachedValue,
  CacheEntry,
  CachePlace,
  GrantCache,
} from '../grant-cache/grant-cache.ts';
import type { Lookup } from '../reverse-expansion.ts';
import { isReplacing } from './row-columns.ts';
import { foundBy, foundTuples, lookupsIn, orderedTuples, type RowSource } from './row-sources.ts';

export interface RowStart {
  /** No stored tuple leads to a row in front of this id that is not taken away. */
  readonly id: string;
  /** From here on few are taken away. */
  readonly isNear: boolean;
}

/** Without a start it is not worth to begin anywhere but at the first tuple. */
interface FoundStart {
  readonly start: RowStart | undefined;
}

/** What a start is found from. */
interface Begun {
  readonly source: RowSource;
  readonly taken: {
    readonly source: RowSource;
    /** What is not taken away all the same. */
    readonly granted: RowSource | undefined;
  };
}

/** What of a plan of rows (row-pieces.ts) is needed here. */
type StartedPlan = { readonly [K in keyof Begun]: Begun[K] | undefined } & {
  readonly startPlace: CachePlace | undefined;
};

/** Lookups of which the first tuples are sought. */
const MAX_LOOKUPS = 500;
/** A start that changes all the time is not sought all the time. */
const PAUSE_MS = 5_000;

let places = 0;

/** Where the start of a plan that lasts is kept; `undefined` where columns decide as well, or nothing is taken away. */
export function startPlaceOf({
  source,
  taken,
}: Omit<StartedPlan, 'startPlace'>): CachePlace | undefined {
  if (!source || !taken || taken.source.stored.length === 0) return undefined;
  if (source.from.fields.some(isReplacing)) return undefined;
  if (source.stored.length === 0 || source.stored.length > MAX_LOOKUPS) return undefined;
  places += 1;
  return { key: `start ${places}`, types: [source.type] };
}

/** What is kept of it. */
export const keptStart = (
  { startPlace }: StartedPlan,
  reach: GrantCache | undefined,
): CachedValue<FoundStart> | undefined => startPlace && reach?.kept<FoundStart>(startPlace);

/** When the start of a plan may be sought again. */
const mayNext = new WeakMap<StartedPlan, number>();

/** Finds it and keeps it for later pages, at most every few seconds. `leading`: so many rows in front of it are worth it. */
export async function rememberStart(
  database: Queryable,
  plan: StartedPlan,
  reach: GrantCache,
  leading: number,
): Promise<void> {
  const { source, taken, startPlace } = plan;
  if (!source || !taken || !startPlace || (mayNext.get(plan) ?? 0) > performance.now()) return;
  mayNext.set(plan, performance.now() + PAUSE_MS);
  await reach.read({ ...startPlace, find: () => findStart(database, { source, taken }, leading) });
}

interface StartRow {
  readonly id: string;
  readonly passed: number;
  readonly left: number;
  /** ms since 1970. */
  readonly until: number | null;
}

/** Behind all ids. */
const BEHIND = '~';

async function findStart(
  database: Queryable,
  { source, taken }: Begun,
  leading: number,
): Promise<CacheEntry<FoundStart>> {
  const values: unknown[] = [];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const { rows } = await database.query<StartRow>({
    text: startText({ source, taken }, next, leading),
    values,
  });
  const [found] = rows;
  const isWorth = found !== undefined && found.passed >= leading;
  const all = [source, taken.source, ...(taken.granted ? [taken.granted] : [])];
  return {
    value: { start: isWorth ? { id: found.id, isNear: found.left <= leading } : undefined },
    subjects: [...new Set(all.flatMap(({ stored }) => stored.map(subjectKey)))],
    // What is taken away for a time comes back without a word.
    until: found?.until ?? undefined,
  };
}

const subjectKey = ({ subject: { type, id } }: Lookup): string => `${type}:${id}`;

type Next = (value: unknown) => string;

/** The first id that is not taken away, what is in front of it, and how much of it is behind. */
function startText({ source, taken }: Begun, next: Next, leading: number): string {
  const takenIds = foundTuples(taken.source, next).join(' union all ');
  const granted = taken.granted && foundTuples(taken.granted, next).join(' union all ');
  const stands = `(t.resource_uuid in (select g.id from (${takenIds} offset 0) g where g.id is not null)) is not true`;
  const given = granted
    ? ` or t.resource_uuid in (select g.id from (${granted} offset 0) g where g.id is not null)`
    : '';
  const first = `select t.resource_id from penstock.tuples t where ${foundBy(source)} and (${stands}${given})
    order by t.resource_id limit 1`;
  const away = orderedTuples(taken.source, next, 't.resource_id, t.expires_at').join(' union all ');
  return `with s as materialized (
      select coalesce(min(r.resource_id), '${BEHIND}') as id from ${lookupsIn(source, next)} cross join lateral (${first}) r)
    select s.id, p.passed, p.until, l.left from s
      cross join lateral (select count(*)::integer as passed, (extract(epoch from min(a.expires_at)) * 1000)::float8 as until
        from (${away}) a where a.resource_id < s.id) p
      cross join lateral (select count(*)::integer as left from (
        select 1 from (${away}) a where a.resource_id >= s.id limit ${leading + 1}) f) l`;
}
