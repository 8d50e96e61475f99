/** One socket of an operator: who they are at each moment, what they may hear, and how much of it. */
import type { Socket } from 'socket.io';
import Type from 'typebox';
import { requireAuthority } from '../../../kernel/authority.ts';
import type { AdminCaller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import {
  type Identity,
  isSuperAdmin,
  type PresentedCredentials,
} from '../../../kernel/identity.ts';
import { operationErrors } from '../../../kernel/operations/errors.ts';
import type { OperatorNamespace, OperatorTopic } from '../../../kernel/sockets/operator-notices.ts';
import { presentedCredentials } from '../../http/headers.ts';
import { realtimeErrors } from '../errors.ts';
import { accepting, checker, type EventHandler, type Protocol, type Reply } from '../protocol.ts';
import { remainingLife, type Session, textOf } from '../session.ts';
import { isTooSlow } from '../subscriptions.ts';

/** What a connecting operator presents: headers, and for browsers the same in `auth` of the handshake. */
export function presentedOperator(
  { request, handshake: { auth } }: Pick<Socket, 'request' | 'handshake'>,
  address: string,
): PresentedCredentials {
  const given = presentedCredentials(request, 'admin', address);
  const { token, accessToken, authorization, masterkey, credential } = auth;
  const bearer =
    given.bearer ??
    (textOf(token) ?? textOf(accessToken) ?? textOf(authorization))?.replace(/^bearer /i, '');
  return {
    ...given,
    bearer,
    masterKey: given.masterKey ?? textOf(masterkey),
    apiToken: given.apiToken ?? textOf(credential),
  };
}

/** The operator behind a socket. */
export interface OperatorSession
  extends Omit<Session, 'app' | 'sessionId' | 'caller' | 'anyCaller'> {
  /** Throws 401, 403 or 503 when they may not hear of this module any more. Without a promise when all is cached. */
  anyCaller(): AdminCaller | Promise<AdminCaller>;
  readonly adminId: string;
}

/** Throws 401, 403 or 503. */
export async function openOperatorSession(
  identity: Identity,
  presented: PresentedCredentials,
  module: string,
): Promise<OperatorSession> {
  let current = presented;
  const accepted = (caller: AdminCaller): AdminCaller => {
    if (caller.mustChangePassword) throw operationErrors.PASSWORD_CHANGE_REQUIRED();
    requireAuthority(caller, { kind: 'module', module });
    return caller;
  };
  const check = (credentials: PresentedCredentials): AdminCaller | Promise<AdminCaller> => {
    if (!identity.admin)
      throw errors.UNAVAILABLE({
        message: 'Admin authentication is not available now',
        retryAfter: 2,
      });
    const caller = identity.admin.authenticate(credentials);
    return caller instanceof Promise ? caller.then(accepted) : accepted(caller);
  };
  const { adminId } = await check(current);
  return {
    userId: '',
    adminId,
    countsAs: `admin:${adminId}`,
    anyCaller: () => check(current),
    async renew(token) {
      const fresh = { ...current, bearer: token, apiToken: undefined };
      if ((await check(fresh)).adminId !== adminId) throw realtimeErrors.USER_MISMATCH();
      current = fresh;
    },
    endsIn: () => remainingLife(current.bearer ?? ''),
  };
}

/** Throws 403 for a topic that this operator may not hear. */
function requireTopic(caller: AdminCaller, { name, superAdmin, unscoped }: OperatorTopic): void {
  if (superAdmin && !isSuperAdmin(caller))
    throw errors.FORBIDDEN({ message: `Only a super admin hears "${name}"` });
  if (unscoped && caller.scopes !== undefined)
    throw operationErrors.SCOPE_EXCEEDED({
      message: `"${name}" is about all modules: it needs a credential without scopes`,
    });
}

const hears = (caller: AdminCaller, topic: OperatorTopic): boolean => {
  try {
    requireTopic(caller, topic);
    return true;
  } catch {
    return false;
  }
};

const Topics = Type.Object({
  topics: Type.Array(Type.String({ minLength: 1, maxLength: 64 }), { minItems: 1, maxItems: 50 }),
});

/** What clients of every namespace of operators may send, for its description. */
export const operatorEvents = [
  { name: 'subscribe', summary: 'Hear these topics too; the answer names all', input: Topics },
  { name: 'unsubscribe', summary: 'Hear these topics no more', input: Topics },
] as const;

/** Notices of one topic that a socket is told in a second; what is more is counted. */
const MAX_PER_SECOND = 200;

/** What one socket hears. */
export interface Listening {
  readonly protocol: Protocol;
  /** Begins with all topics that are not to be asked for. */
  begin(caller: AdminCaller): void;
  isHeard(topic: string): boolean;
  /** Tells it if the operator may hear it now. */
  tell(topic: OperatorTopic, data: object): void;
  stop(): void;
}

interface ListeningParts {
  readonly socket: Socket;
  readonly session: OperatorSession;
  /** As it is declared now. */
  readonly namespace: () => OperatorNamespace;
  readonly end: (error: unknown) => void;
}

export function createListening({ socket, session, namespace, end }: ListeningParts): Listening {
  const heard = new Set<string>();
  const budget = createBudget((topic, count) => socket.emit('dropped', { topic, count }));
  const find = (name: string): OperatorTopic => {
    const topic = namespace().topics.find((one) => one.name === name);
    if (!topic) throw realtimeErrors.SUBSCRIPTION_NOT_FOUND({ message: `There is no "${name}"` });
    return topic;
  };
  const answer = (): Reply => ({ topics: [...heard].sort() });
  const subscribe: EventHandler['handle'] = accepting(checker(Topics), async ({ topics }) => {
    const caller = await session.anyCaller();
    // All of them or none.
    for (const name of topics) requireTopic(caller, find(name));
    for (const name of topics) heard.add(name);
    return answer();
  });
  const unsubscribe: EventHandler['handle'] = accepting(checker(Topics), async ({ topics }) => {
    for (const name of topics) heard.delete(find(name).name);
    return answer();
  });
  const deliver = (caller: AdminCaller, topic: OperatorTopic, data: object): void => {
    if (!socket.connected || !heard.has(topic.name) || !hears(caller, topic)) return;
    if (isTooSlow(socket)) end(realtimeErrors.CONSUMER_TOO_SLOW());
    else socket.emit(topic.name, data);
  };
  return {
    protocol: {
      errorEvent: 'conduit_error',
      alwaysTells: false,
      handlers: new Map([
        ['subscribe', { heavy: false, handle: subscribe }],
        ['unsubscribe', { heavy: false, handle: unsubscribe }],
      ]),
      clear: () => heard.clear(),
    },
    begin(caller) {
      for (const topic of namespace().topics)
        if (!topic.onRequest && hears(caller, topic)) heard.add(topic.name);
    },
    isHeard: (topic) => heard.has(topic),
    tell(topic, data) {
      if (!budget.take(topic.name)) return;
      try {
        const caller = session.anyCaller();
        if (caller instanceof Promise) caller.then((now) => deliver(now, topic, data), end);
        else deliver(caller, topic, data);
      } catch (error) {
        end(error);
      }
    },
    stop: budget.stop,
  };
}

/** So much of each topic in a second; what was left out is told when the second is over. */
export function createBudget(onDropped: (topic: string, count: number) => void) {
  const told = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    timer = undefined;
    for (const [topic, count] of told)
      if (count > MAX_PER_SECOND) onDropped(topic, count - MAX_PER_SECOND);
    told.clear();
  };
  return {
    take(topic: string): boolean {
      const count = (told.get(topic) ?? 0) + 1;
      told.set(topic, count);
      timer ??= setTimeout(flush, 1_000).unref();
      return count <= MAX_PER_SECOND;
    },
    stop: () => clearTimeout(timer),
  };
}
