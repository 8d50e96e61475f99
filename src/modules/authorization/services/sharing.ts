/**
 * Sharing: what users do with the relations of objects that they may share. Nobody gives or takes a relation that lets
 * people do what they may not do themselves, and nobody shares with themselves, so no right grows by it.
 */
import { publicRecords } from '../../../data/records/read/public-records.ts';
import type { Kernel } from '../../../host/kernel.ts';
import type { Caller, UserCaller } from '../../../kernel/caller.ts';
import { invalid } from '../../../kernel/errors.ts';
import { readWhile } from '../../../kernel/read-while.ts';
import { authorizationErrors } from '../errors.ts';
import {
  formatObject,
  formatSubject,
  type ObjectRef,
  type SubjectRef,
  sameObject,
} from '../model/grammar.ts';
import { actionsGiven, shareAction } from '../model/sharing.ts';
import { tupleProblem } from '../model/tuple.ts';
import type { TimedTuple } from '../queries.ts';
import {
  countOtherShares,
  existingObjects,
  isConditional,
  lastsAsLong,
  lockShares,
  objectExists,
  type ShareRow,
  sharesOf,
} from '../share-queries.ts';
import type { Checks } from './checks.ts';
import { holdDefinitions, type Models } from './definitions/models.ts';
import { createGivers, type Given, type Givers, mayGive, userSubject } from './share-givers.ts';
import type { Tuples } from './tuples.ts';

/** People and groups with whom users share one object. */
const MAX_SHARES = 1000;

/** What somebody gives to somebody. */
export interface Share {
  readonly subject: SubjectRef;
  readonly relation: string;
  /** ISO 8601; without it, until it is taken back. */
  readonly expiresAt?: string | undefined;
}

export interface ListedShare extends ShareRow {
  /** JSON text of what is public of the subject. */
  readonly profile: string | undefined;
}

interface Shares {
  readonly shares: readonly ListedShare[];
  readonly count: number;
  /** The relations that the caller may give and take. */
  readonly relations: readonly string[];
}

export interface Sharing {
  /** Throws 400 for an unknown type and 403. */
  list(
    caller: UserCaller,
    resource: ObjectRef,
    page: { readonly skip: number; readonly limit: number },
  ): Promise<Shares>;
  /** Idempotent: what is shared already gets the new end. Throws 400, 403, and 409 when it is shared with too many. */
  give(caller: UserCaller, resource: ObjectRef, share: Share): Promise<void>;
  /** Whether it was there or not. Everybody may give up what was shared with the caller. Throws 400 and 403. */
  take(caller: UserCaller, resource: ObjectRef, share: Share): Promise<void>;
  /** Throws 400 for what is not shared like this, and 403 for a user who may not do it; without a relation, for one who shares nothing of it. */
  requireGiver(userId: string, resource: ObjectRef, relation?: string): Promise<void>;
  /** The same, for a relation that is offered to one user; 400 for one that takes groups alone. */
  requireOffer(userId: string, resource: ObjectRef, relation: string): Promise<void>;
  /** For each offer whether whoever made it still may, of something that is there; what lies in the trash is not. */
  areOpen(offers: readonly Given[]): Promise<readonly boolean[]>;
  /**
   * Gives a user what was offered to them by somebody who still may: joins the ambient transaction. What they have for
   * longer stays. Throws like `requireGiver`, and 409 when it is shared with too many.
   */
  accept(caller: Caller, offer: Offer): Promise<void>;
}

/** What a user was offered. */
export interface Offer extends Given {
  readonly to: string;
  readonly expiresAt?: string | undefined;
}

interface Dependencies extends Pick<Kernel, 'database' | 'schemas' | 'permissions'> {
  readonly models: Models;
  readonly checks: Checks;
  readonly tuples: Pick<Tuples, 'write' | 'removeAll'>;
}

export function createSharing({ models, checks, tuples, ...kernel }: Dependencies): Sharing {
  const { database } = kernel;
  const givers = createGivers({ models, checks });
  const { definitionOf, requireGiver } = givers;
  const requireReceiver = createReceivers({ ...kernel, models, may: givers.may });
  const isThere = ({ type, id }: ObjectRef): Promise<boolean> | true => {
    const schema = kernel.schemas.get(type);
    return schema ? objectExists(database, schema, id) : true;
  };
  /** What is written by somebody who may not share it any more goes with the transaction. */
  const write = async (caller: Caller, by: string, tuple: TimedTuple): Promise<void> => {
    await holdDefinitions(database);
    const { shareable } = await definitionOf(tuple.resource);
    // Whoever deletes the record waits (`heldByUsers`), and takes the relation with it.
    if (!(await isThere(tuple.resource))) throw authorizationErrors.SHARING_REFUSED();
    await requireRoom(database, tuple, [...shareable]);
    if (await isConditional(database, tuple)) throw conditional();
    await tuples.write(caller, [tuple]);
    await requireGiver(by, tuple.resource, tuple.relation);
  };

  return {
    requireGiver,
    async requireOffer(userId, resource, relation) {
      await requireGiver(userId, resource, relation);
      if (!(await isThere(resource))) throw authorizationErrors.SHARING_REFUSED();
      const { model } = await models.engine();
      if (tupleProblem(model, { subject: userSubject(userId), relation, resource }))
        throw invalid(
          'relation',
          'subject',
          `"${relation}" takes no single users: share it with a group`,
        );
    },
    areOpen: (offers) => areOpen({ models, checks, ...kernel }, offers),
    list: createList(kernel, givers),
    give: (caller, resource, share) =>
      database.transaction(async () => {
        await requireGiver(caller.userId, resource, share.relation);
        requireFuture(share.expiresAt);
        await requireReceiver(caller, share.subject);
        await write(caller, caller.userId, { ...share, resource });
      }),
    take: (caller, resource, { subject, relation }) =>
      database.transaction(async () => {
        const definition = await definitionOf(resource);
        const isOwn = formatSubject(subject) === formatSubject(userSubject(caller.userId));
        if (!isOwn || !definition.shareable.has(relation))
          await requireGiver(caller.userId, resource, relation);
        const gone = { subject, relation, resource };
        if (!isOwn) await lockShares(database, [resource]);
        if (!isOwn && (await isConditional(database, gone))) throw conditional();
        await tuples.removeAll(caller, [gone]);
      }),
    async accept(caller, { by, to, resource, relation, expiresAt }) {
      if (by === to) throw authorizationErrors.SHARING_REFUSED();
      await requireGiver(by, resource, relation);
      const offered: TimedTuple = { subject: userSubject(to), relation, resource, expiresAt };
      if (!(await lastsAsLong(database, offered))) await write(caller, by, offered);
    },
  };
}

async function areOpen(
  { database, schemas, ...parts }: Pick<Dependencies, 'database' | 'schemas' | 'models' | 'checks'>,
  offers: readonly Given[],
): Promise<readonly boolean[]> {
  const resources = offers.map(({ resource }) => resource);
  const there = await existingObjects(database, schemas, resources);
  const may = await mayGive(parts, offers);
  return resources.map((resource, i) => there.has(formatObject(resource)) && may[i] === true);
}

/** With whom something is shared, for those who may share it. */
function createList(
  kernel: Pick<Dependencies, 'database' | 'schemas' | 'permissions'>,
  { definitionOf, may }: Pick<Givers, 'definitionOf' | 'may'>,
): Sharing['list'] {
  const profilesOf = async (
    caller: UserCaller,
    shares: readonly ShareRow[],
  ): Promise<ReadonlyMap<string, string>> => {
    const ids = shares.flatMap(({ subject }) => (subject.type === 'User' ? [subject.id] : []));
    return new Map(
      (await publicRecords(kernel, caller, 'User', ids)).map(({ id, json }) => [id, json]),
    );
  };

  return async (caller, resource, page) => {
    const definition = await definitionOf(resource);
    const shareable = [...definition.shareable];
    const given = shareable.map((relation) => actionsGiven(definition, relation));
    const asked = [...new Set([shareAction, ...given.flat()])].filter((action) =>
      definition.actions.has(action),
    );
    const ask = async (): Promise<ReadonlySet<string>> => {
      const answers = asked.length === 0 ? [] : await may(caller.userId, resource, asked);
      const allowed = new Set(asked.filter((_, i) => answers[i]));
      if (!allowed.has(shareAction)) throw authorizationErrors.SHARING_REFUSED();
      return allowed;
    };
    return readWhile(ask, async (allowed) => {
      const { shares, count } = await sharesOf(kernel.database, resource, shareable, page);
      const profiles = await profilesOf(caller, shares);
      return {
        shares: shares.map((share) => ({ ...share, profile: profiles.get(share.subject.id) })),
        count,
        relations: shareable.filter((_, i) => given[i]?.every((action) => allowed.has(action))),
      };
    });
  };
}

/** Throws 400 for a subject with whom nobody shares, or who is not there, and 403 for one whom the caller may not see. */
function createReceivers({
  database,
  schemas,
  models,
  may,
}: Pick<Dependencies, 'database' | 'schemas' | 'models'> & Pick<Givers, 'may'>) {
  async function requireReceiver({ userId }: UserCaller, subject: SubjectRef): Promise<void> {
    if (subject.id === '*')
      throw invalid('subject', 'wildcard', 'sharing with everybody is for operators');
    if (sameObject(subject, { type: 'User', id: userId }))
      throw invalid('subject', 'self', 'this is yourself: share with somebody else');
    const schema = schemas.get(subject.type);
    const there = schema ? await objectExists(database, schema, subject.id) : true;
    const isPerson = subject.type === 'User' && subject.relation === '';
    const readable = isPerson || (await mayRead(userId, subject));
    if (!there || !readable)
      throw invalid('subject', 'unknown', `you know no ${subject.type} with this id`);
  }

  /** Groups are for those who know them. */
  async function mayRead(userId: string, { type, id }: SubjectRef): Promise<boolean> {
    const { model } = await models.engine();
    if (!model.action(type, 'read')) return false;
    const [allowed] = await may(userId, { type, id }, ['read']);
    return allowed === true;
  }

  return requireReceiver;
}

/** Throws 409 when the object is shared with too many; what is shared already needs no room. */
async function requireRoom(
  database: Kernel['database'],
  tuple: TimedTuple,
  relations: readonly string[],
): Promise<void> {
  await lockShares(database, [tuple.resource]);
  if ((await countOtherShares(database, tuple, relations, MAX_SHARES)) >= MAX_SHARES)
    throw authorizationErrors.SHARES_FULL();
}

/** What has ended gives nothing: whoever is told that it is shared would be misled. */
function requireFuture(expiresAt: string | undefined): void {
  if (expiresAt !== undefined && Date.parse(expiresAt) <= Date.now())
    throw invalid('expiresAt', 'range', 'must be a moment to come');
}

const conditional = () =>
  authorizationErrors.SHARING_REFUSED({
    message: 'An operator has given this relation under a condition: operators alone change it',
  });
