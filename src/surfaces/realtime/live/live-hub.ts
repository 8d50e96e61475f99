/** All questions of this node that somebody listens to, and what of everything that happens concerns which of them. */
import type { FittingRecords, LiveRecords } from '../../../data/records/store.ts';
import { errors } from '../../../kernel/errors.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import type { LiveFilter, LiveRead } from '../../../kernel/operations/live-read.ts';
import type { RecordDependencies } from '../../../kernel/permissions.ts';
import type { OfferedChange } from './list-state.ts';
import { type Changes, changedRecords, createGathering } from './live-changes.ts';
import { Remembered, requireRoom } from './live-memory.ts';
import { type LiveBeginning, QueryEnded } from './live-messages.ts';
import { type LiveListener, LiveQuery } from './live-query.ts';
import { createTurns } from './live-turns.ts';

export interface LiveHubParts {
  readonly records: Pick<LiveRecords, 'fitting'>;
  /** Runs work on an account of its own, with what this node remembers up to date. */
  onOwnAccount<T>(work: () => Promise<T>): Promise<T>;
  /** Hears of everything that happens from now on; answers how to stop. */
  follow(handler: (event: PublishedEvent) => void, onGap: () => void): () => void;
  /** Whether a relation of one user may give rights to others. */
  reachesThroughUsers(): Promise<boolean>;
  /** On which other records rights on those of a schema hang; nothing where there are no permissions. */
  dependenciesOf(schema: string): Promise<RecordDependencies | undefined>;
  readonly log: (error: unknown) => void;
  /** Listeners were told of a change, so many milliseconds after it happened. */
  readonly onTold: (lagMs: number) => void;
}

export interface LiveHub {
  /** Listens to a question; `ask` answers what is read for it as things are now. Rejects as that and its reading do. */
  listen(
    ask: () => Promise<LiveRead>,
    listener: LiveListener,
    since: string | undefined,
  ): Promise<{ readonly query: LiveQuery; readonly beginning: LiveBeginning }>;
  schemasChanged(names: readonly string[]): void;
  /** Questions, and those who listen to them. */
  counts(): { readonly queries: number; readonly listeners: number };
  stop(): void;
}

/** Times a question is asked anew for who was to be let in when it ended. */
const ATTEMPTS = 5;
/** Changed records of a schema at once, beyond which every list of it is read whole. */
const MAX_IDS = 1_000;
/** Milliseconds for which a question without listeners is kept for those who come back. */
const KEPT_MS = 60_000;
/** Milliseconds between looks at rights that end by themselves: nothing tells of the end of a grant. */
const SWEEP_MS = 10_000;

export function createLiveHub(parts: LiveHubParts): LiveHub {
  const queries = new Map<string, LiveQuery>();
  const turns = createTurns(parts);
  const remembered = new Remembered();
  const gathered = createGathering((schema, changes) =>
    concern(parts, [...queries.values()], schema, changes),
  );

  let unfollow: (() => void) | undefined;
  let stopped = false;
  const forget = (key: string): void => {
    queries.delete(key);
    if (queries.size > 0) return;
    unfollow?.();
    unfollow = undefined;
  };
  const heard = (event: PublishedEvent): void => {
    const { topic, ids = [], payload, occurredAt } = event;
    if (topic.startsWith('authorization:')) touchConcerned(parts, queries, payload);
    const about = changedRecords(event);
    if (!about) return;
    const { schema, hasEnded } = about;
    for (const query of [...queries.values()]) query.endFor(schema, ids);
    gathered(schema, ids, { since: Date.parse(occurredAt), hasEnded });
  };

  const open = (read: LiveRead): LiveQuery => {
    const key = keyOf(read);
    const known = queries.get(key);
    if (known) return known;
    if (stopped) throw errors.UNAVAILABLE();
    requireRoom(queries.values(), read.asker ?? '');
    const query = createQuery(parts, { read, turns, remembered }, (ended) => {
      if (queries.get(key) === ended) forget(key);
    });
    queries.set(key, query);
    unfollow ??= parts.follow(heard, () => missed([...queries.values()]));
    // Between the question and this moment.
    if (read.ends?.aborted) query.end('changed');
    return query;
  };

  const sweep = setInterval(() => sweepThrough([...queries.values()]), SWEEP_MS);
  sweep.unref();

  return {
    listen: (ask, listener, since) => enter({ ask, open }, listener, since),
    schemasChanged(names) {
      for (const query of [...queries.values()])
        if (names.some((name) => isAbout(query.read, name))) query.end('changed');
    },
    counts: () => ({
      queries: queries.size,
      listeners: [...queries.values()].reduce((sum, { listeners }) => sum + listeners.size, 0),
    }),
    stop() {
      stopped = true;
      clearInterval(sweep);
      for (const query of [...queries.values()]) query.end('lost');
    },
  };
}

const keyOf = ({ kind, audience, key }: LiveRead): string => `${kind} ${audience} ${key}`;

interface Begun {
  readonly read: LiveRead;
  readonly turns: ReturnType<typeof createTurns>;
  readonly remembered: Remembered;
}

/** It ends with the operation that it was asked of. */
function createQuery(
  { log, onTold }: LiveHubParts,
  { read, turns, remembered }: Begun,
  forget: (query: LiveQuery) => void,
): LiveQuery {
  const change = (): void => query.end('changed');
  const query: LiveQuery = new LiveQuery({
    ...{ read, remembered, run: turns, log, onTold },
    onEnd() {
      read.ends?.removeEventListener('abort', change);
      forget(query);
    },
  });
  read.ends?.addEventListener('abort', change);
  return query;
}

interface Asking {
  readonly ask: () => Promise<LiveRead>;
  readonly open: (read: LiveRead) => LiveQuery;
}

/** Lets a listener in; where the question ends before that, it is asked anew. */
async function enter(
  asking: Asking,
  listener: LiveListener,
  since: string | undefined,
): ReturnType<LiveHub['listen']> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    try {
      return await attemptToEnter(asking, listener, since);
    } catch (error) {
      if (!(error instanceof QueryEnded)) throw error;
    }
  }
  throw errors.UNAVAILABLE();
}

async function attemptToEnter(
  { ask, open }: Asking,
  listener: LiveListener,
  since: string | undefined,
): ReturnType<LiveHub['listen']> {
  const read = await ask();
  const query = open(read);
  if (read.madeFrom) query.expect(listener, read.madeFrom);
  try {
    // What it is made from may have changed before it was open: nothing tells of that any more.
    if (read.madeFrom && keyOf(await ask()) !== keyOf(read)) throw new QueryEnded();
    return { query, beginning: await query.join(listener, since) };
  } catch (error) {
    query.leave(listener);
    throw error;
  }
}

/** What happened is not known: anything may be different. */
function missed(queries: readonly LiveQuery[]): void {
  for (const query of queries)
    if (query.read.madeFrom) query.end('changed');
    else query.touch('all');
}

/** Ends questions that nobody came back to, and looks at rights that may have ended by themselves. */
function sweepThrough(queries: readonly LiveQuery[]): void {
  const now = performance.now();
  for (const query of queries) {
    if (query.listeners.size === 0 && now - query.idleSince > KEPT_MS) query.end('lost');
    else if (query.read.rightsOf !== undefined) query.touch('all');
  }
}

const isAbout = ({ schema, related }: LiveRead, name: string): boolean =>
  schema === name || related.has(name);

/**
 * A relation whose subject is a user changes what this user may do, and what others may who act through them; any other
 * may change it for everybody.
 */
function touchConcerned(
  { reachesThroughUsers, log }: LiveHubParts,
  queries: ReadonlyMap<string, LiveQuery>,
  payload: PublishedEvent['payload'],
): void {
  const [, userId] = /^User:([^#*]+)$/.exec(String(payload?.subject ?? '')) ?? [];
  touchRights(queries.values(), userId);
  if (userId === undefined) return;
  reachesThroughUsers()
    .catch((error: unknown) => {
      log(error);
      return true;
    })
    .then((others) => others && touchRights(queries.values()));
}

/** Of one user, or of everybody. */
function touchRights(queries: Iterable<LiveQuery>, userId?: string): void {
  for (const query of queries) {
    const { rightsOf } = query.read;
    if (rightsOf !== undefined && (userId === undefined || userId === rightsOf)) query.touch('all');
  }
}

/** Touches the questions that changes of these records may concern. Never rejects. */
async function concern(
  parts: LiveHubParts,
  queries: readonly LiveQuery[],
  schema: string,
  changes: Changes,
): Promise<void> {
  const { since } = changes;
  const ids = [...changes.ids];
  const about = queries.filter(({ read }) => isAbout(read, schema));
  const lists = about.filter(
    ({ read }) => read.kind === 'rows' && read.schema === schema && !read.related.has(schema),
  );
  for (const query of about) if (!lists.includes(query)) query.touch('all', since);
  await touchLeaning(parts, queries, schema, changes);
  if (lists.length === 0) return;
  if (ids.length > MAX_IDS) {
    for (const query of lists) query.touch('all', since);
    return;
  }
  const asked = performance.now();
  const found = await fittingOf(parts, lists, schema, ids);
  for (const query of lists) tellOf(query, { ids, asked, since }, found);
}

/**
 * Questions in which records have a part whose rights hang on the records that changed: of these nothing is told as a
 * change of rights.
 */
async function touchLeaning(
  { dependenciesOf, log }: LiveHubParts,
  queries: readonly LiveQuery[],
  schema: string,
  { since, hasEnded }: Changes,
): Promise<void> {
  const ruled = queries.filter(({ read }) => read.rightsOf !== undefined);
  const parts = new Set(ruled.flatMap(({ read }) => [read.schema, ...read.related]));
  const leaning = new Set<string>();
  try {
    for (const about of parts) {
      const dependencies = await dependenciesOf(about);
      if (dependencies?.values.has(schema) || (hasEnded && dependencies?.presence.has(schema)))
        leaning.add(about);
    }
  } catch (error) {
    // The next look at all rights, some seconds later, sees it.
    log(error);
  }
  for (const query of ruled)
    if ([...leaning].some((name) => isAbout(query.read, name))) query.touch('all', since);
}

/** Hands a list what changed of it; where that is not known, it is read. */
function tellOf(
  query: LiveQuery,
  { ids, ...times }: Omit<OfferedChange, 'fitting'>,
  found: Found | undefined,
): void {
  const filter = filterOf(query);
  const fitting = filter ? found?.byFilter.get(filter.key) : found?.all;
  const concerned = fitting ? ids.filter((id) => query.has(id) || fitting.has(id)) : ids;
  if (!fitting) query.touch(ids, times.since);
  else if (concerned.length > 0) query.offer({ ...times, ids: concerned, fitting });
}

const orderOf = ({ read }: LiveQuery) => (read.kind === 'rows' ? read.rows.order : undefined);

const filterOf = ({ read }: LiveQuery): LiveFilter | undefined =>
  read.kind === 'rows' ? read.rows.filter : undefined;

interface Found {
  readonly all: FittingRecords;
  readonly byFilter: ReadonlyMap<string, FittingRecords>;
}

/** Which of the records fit which filter, and how they read, asked once for all lists; nothing when that cannot be said. */
async function fittingOf(
  { records, onOwnAccount, log }: LiveHubParts,
  lists: readonly LiveQuery[],
  schema: string,
  ids: readonly string[],
): Promise<Found | undefined> {
  const filters = [
    ...new Map(
      lists.flatMap((query) => {
        const filter = filterOf(query);
        return filter ? [[filter.key, filter] as const] : [];
      }),
    ).values(),
  ];
  if (filters.length === 0 && !lists.some(orderOf)) return undefined;
  try {
    const { all, byFilter } = await onOwnAccount(() => records.fitting(schema, ids, filters));
    const known = filters.map(({ key }, at) => [key, byFilter[at] ?? new Map()] as const);
    return { all, byFilter: new Map(known) };
  } catch (error) {
    log(error);
    return undefined;
  }
}
