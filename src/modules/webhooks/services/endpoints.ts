/** Endpoints as operators keep them. Every change is one transaction, with its event. */
import { type AuthorityObject, requireAuthority, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { isId, newId } from '../../../kernel/ids.ts';
import { webhookErrors } from '../errors.ts';
import {
  deleteEndpoint,
  type EndpointRow,
  type EndpointSettings,
  enabledEndpoints,
  endpointById,
  insertEndpoint,
  listEndpoints,
  lockEndpoints,
  replaceSecret,
  switchEndpoint,
  updateEndpoint,
} from '../queries.ts';
import {
  conditionProblems,
  eventProblems,
  problem,
  schemaProblems,
  urlProblems,
} from './endpoint-problems.ts';
import { secretContext, type WebhookParts } from './parts.ts';
import { newWebhookSecret } from './signature.ts';

/** Endpoints of one installation: each event is compared with all of them. */
const MAX_ENDPOINTS = 200;

/** What is given of an endpoint; the rest has its default, or stays. */
export type GivenEndpoint = Partial<EndpointSettings> & {
  readonly enabled?: boolean | undefined;
};
export type NewEndpoint = GivenEndpoint & Pick<EndpointSettings, 'name' | 'url' | 'events'>;

const defaults = {
  description: '',
  schemas: [],
  condition: null,
  payload: 'full',
  ordered: false,
} as const;

export interface Endpoints {
  list(page: Parameters<typeof listEndpoints>[1]): ReturnType<typeof listEndpoints>;
  /** Throws WEBHOOK_NOT_FOUND. */
  get(id: string): Promise<EndpointRow>;
  /** What whoever makes, changes or deletes such an endpoint must be allowed to touch: it passes that on. */
  touchedBy(endpoint: Pick<NewEndpoint, 'events' | 'schemas'>): readonly AuthorityObject[];
  /** The settings as they would be stored. Throws WEBHOOK_INVALID, and 403 for what the caller has no authority over. */
  read(caller: Caller, given: NewEndpoint): Promise<EndpointSettings>;
  /** The secret is answered this once. */
  create(
    caller: Caller,
    given: NewEndpoint,
  ): Promise<{ readonly endpoint: EndpointRow; readonly secret: string }>;
  update(caller: Caller, id: string, change: GivenEndpoint): Promise<EndpointRow>;
  remove(caller: Caller, id: string): Promise<void>;
  /** What waits is held while it is off, and sent when it is on again. */
  switch(caller: Caller, id: string, enabled: boolean): Promise<EndpointRow>;
  /** The earlier secret signs beside the new one for so long. */
  rotate(
    caller: Caller,
    id: string,
    overlapSeconds: number,
  ): Promise<{ readonly secret: string; readonly previousUntil: Date | null }>;
}

export function createEndpoints(parts: WebhookParts): Endpoints {
  const { database, secrets } = parts;
  const seal = (id: string, secret: string): string => secrets.seal(secret, secretContext(id));
  const change = changing(parts);

  return {
    list: (page) => listEndpoints(database, page),
    get: async (id) => existing(isId(id) ? await endpointById(database, id) : undefined),
    touchedBy: (endpoint) => touchedBy(parts, endpoint),
    read: (caller, given) => readSettings(parts, caller, given),
    async create(caller, given) {
      const settings = await readSettings(parts, caller, given);
      const [id, secret] = [newId(), newWebhookSecret()];
      const endpoint = await onTakenName(() =>
        database.transaction(async (transaction) => {
          if ((await lockEndpoints(transaction)) >= MAX_ENDPOINTS)
            throw webhookErrors.WEBHOOKS_EXCEEDED();
          const enabled = given.enabled ?? true;
          await insertEndpoint(transaction, {
            ...settings,
            ...{ id, enabled, secret: seal(id, secret) },
          });
          await followEvents(parts, transaction);
          await tell(parts, transaction, caller, { what: 'create', id, name: settings.name });
          return existing(await endpointById(transaction, id));
        }),
      );
      return { endpoint, secret };
    },
    update: (caller, id, given) =>
      change(caller, id, 'update', async (transaction, before) => {
        const { enabled = before.enabled, ...settings } = given;
        const after = await readSettings(parts, caller, { ...before, ...settings }, settings);
        await updateEndpoint(transaction, id, after);
        if (enabled !== before.enabled) await setEnabled(parts, transaction, id, enabled);
      }),
    async remove(caller, id) {
      await change(caller, id, 'delete', async (transaction) => {
        await deleteEndpoint(transaction, id);
        await parts.queue.remove(transaction, id);
      });
    },
    switch: (caller, id, enabled) =>
      change(caller, id, enabled ? 'enable' : 'disable', async (transaction, before) => {
        if (enabled) await readSettings(parts, caller, before);
        if (enabled !== before.enabled) await setEnabled(parts, transaction, id, enabled);
      }),
    async rotate(caller, id, overlapSeconds) {
      const secret = newWebhookSecret();
      const until = overlapSeconds > 0 ? new Date(Date.now() + overlapSeconds * 1000) : null;
      await change(caller, id, 'update', (transaction) =>
        replaceSecret(transaction, id, { secret: seal(id, secret), previousUntil: until }),
      );
      return { secret, previousUntil: until };
    },
  };
}

type Change = 'create' | 'update' | 'delete' | 'enable' | 'disable';

function changing(parts: WebhookParts) {
  return (
    caller: Caller,
    id: string,
    what: Change,
    work: (transaction: Transaction, before: EndpointRow) => Promise<void>,
  ): Promise<EndpointRow> =>
    onTakenName(() =>
      parts.database.transaction(async (transaction) => {
        await lockEndpoints(transaction);
        const before = existing(isId(id) ? await endpointById(transaction, id, true) : undefined);
        requireAuthority(caller, ...touchedBy(parts, before));
        await work(transaction, before);
        await followEvents(parts, transaction);
        const after = (await endpointById(transaction, id)) ?? before;
        await tell(parts, transaction, caller, { what, id, name: after.name });
        return after;
      }),
    );
}

async function setEnabled(
  { queue, wake }: WebhookParts,
  transaction: Transaction,
  id: string,
  enabled: boolean,
): Promise<void> {
  await switchEndpoint(transaction, id, { enabled, reason: null });
  await (enabled ? queue.resume(transaction, id) : queue.hold(transaction, id));
  transaction.afterCommit(wake);
}

/** Events are kept for this module while an endpoint is switched on. */
async function followEvents({ consumer }: WebhookParts, transaction: Transaction): Promise<void> {
  const some = (await enabledEndpoints(transaction)).length > 0;
  await (some ? consumer.follow(transaction) : consumer.leave(transaction));
}

const tell = (
  { events }: WebhookParts,
  transaction: Transaction,
  caller: Caller,
  { what, id, name }: { readonly what: Change; readonly id: string; readonly name: string },
): Promise<void> =>
  events.emit(transaction, caller, {
    topic: `webhooks:${what}:endpoint`,
    ids: [id],
    payload: { _id: id, name },
  });

/** `changed`: what of it is new, which alone can be wrong; all of it unless given. */
async function readSettings(
  parts: WebhookParts,
  caller: Caller,
  given: NewEndpoint,
  changed: GivenEndpoint = given,
): Promise<EndpointSettings> {
  const { enabled: _, ...settings } = { ...defaults, ...given };
  const { url, events, schemas, condition } = settings;
  const known = schemas.map((name) => parts.schemas.get(name));
  const problems = [
    ...urlProblems(url, parts.config().allowInternal),
    ...(changed.events ? eventProblems(parts, events) : []),
    ...schemaProblems(schemas, known),
  ];
  const isAboutRecords = changed.condition !== undefined || changed.schemas !== undefined;
  if (problems.length === 0 && condition !== null && isAboutRecords)
    problems.push(...(await conditionProblems(parts, caller, { schemas, condition })));
  const [first] = problems;
  if (first)
    throw webhookErrors.WEBHOOK_INVALID({
      message: `${first.path}: ${first.message}`,
      errors: problems,
    });
  requireAuthority(caller, ...touchedBy(parts, settings));
  return {
    ...{ name: settings.name, url, description: settings.description, events, schemas, condition },
    ...{ payload: settings.payload, ordered: settings.ordered },
  };
}

function touchedBy(
  { schemas: registry }: Pick<WebhookParts, 'schemas'>,
  { events, schemas = [] }: Pick<NewEndpoint, 'events' | 'schemas'>,
): readonly AuthorityObject[] {
  const named = schemas.flatMap((name) => schemaObject(registry.get(name)));
  return [...named, ...modulesOf(events, schemas).map(moduleObject)];
}

const moduleObject = (module: string) => ({ kind: 'module', module }) as const;

/** The modules of which an endpoint hears: a pattern that may be about records of any schema, or about anything, is about all. */
function modulesOf(events: readonly string[], schemas: readonly string[]): readonly string[] {
  return events.flatMap((pattern) => {
    const [first = '', ...rest] = pattern.split('.');
    if (rest.length === 0) return ['*'];
    if (first === 'record') return schemas.length > 0 ? [] : ['*'];
    return [first];
  });
}

function existing(endpoint: EndpointRow | undefined): EndpointRow {
  if (!endpoint) throw webhookErrors.WEBHOOK_NOT_FOUND();
  return endpoint;
}

async function onTakenName<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw codeOf(error) === '23505'
      ? webhookErrors.WEBHOOK_EXISTS({
          errors: [problem('name', 'unique', 'another endpoint has this name')],
          cause: error,
        })
      : error;
  }
}
