/** What channels there are, by patterns that operators define, and what a user may do in one of them. */
import Type, { type Static } from 'typebox';
import { canonicalId, isRecordId } from '../../../data/schema/language/record-key.ts';
import type { Kernel } from '../../../host/kernel.ts';
import type { UserCaller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import { routerErrors } from '../errors.ts';

const joins = [Type.Literal('users'), Type.Literal('self')] as const;
const ofRecords = [Type.Literal('readers'), Type.Literal('editors')] as const;

const Definition = Type.Object({
  pattern: Type.String({
    pattern: '^[a-z][a-z0-9-]{0,39}(:\\{id\\})?$',
    maxLength: 45,
    description: 'One channel, such as `lobby`, or one for each id: `game:{id}`.',
  }),
  join: Type.Union([...joins, ...ofRecords], {
    description:
      'Who may join: `users` (whoever is signed in), `self` (the user whose id is `{id}`), `readers` or `editors` (of the record of `schema` whose id is `{id}`).',
  }),
  send: Type.Union([...joins, ...ofRecords, Type.Literal('none')], {
    description: 'Who of them may send; `none`: a channel for presence alone.',
  }),
  schema: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 128,
      description: 'Whose records `{id}` names, for `readers` and `editors`.',
    }),
  ),
  presence: Type.Optional(
    Type.Boolean({ description: 'Whether members see who is there. Off unless set.' }),
  ),
  history: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 200,
      description: 'Messages that are kept, for a day at most. 0 unless set.',
    }),
  ),
  payloadBytes: Type.Optional(
    Type.Integer({
      minimum: 16,
      maximum: 16_384,
      description: 'Bytes of what one message carries. 4,096 unless set.',
    }),
  ),
  messagesPerSecond: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 50,
      description: 'Messages of one socket in one channel. 30 unless set.',
    }),
  ),
});

/** The key `channels` of the configuration. */
export const channelsConfig = Type.Array(Definition, {
  default: [],
  maxItems: 100,
  description:
    'Channels for apps in the socket namespace `/channels/`: broadcast, presence and history.',
});

export type ChannelDefinition = Static<typeof Definition>;

/** What is wrong with definitions, beyond the form of each. */
export const channelProblems = (definitions: readonly ChannelDefinition[]) =>
  definitions.flatMap(({ pattern, join, send, schema }, at) => {
    const problem = (key: string, rule: string, message: string) => [
      { path: `channels.${at}.${key}`, rule, message },
    ];
    const audiences: readonly string[] = [join, send];
    const isOfRecords = audiences.some((one) => one === 'readers' || one === 'editors');
    if (definitions.findIndex((other) => other.pattern === pattern) !== at)
      return problem('pattern', 'unique', 'is defined above already');
    if ((isOfRecords || audiences.includes('self')) && !pattern.endsWith(':{id}'))
      return problem('pattern', 'format', 'needs {id} for self, readers and editors');
    if (isOfRecords && schema === undefined)
      return problem('schema', 'required', 'name the schema of the records');
    return [];
  });

/** A channel that somebody named, and what holds for it. */
export interface FoundChannel {
  /** In one spelling: ids of users and records in small letters. */
  readonly channel: string;
  readonly id: string;
  readonly definition: ChannelDefinition;
}

export const channelName = /^[a-z][a-z0-9-]{0,39}(:[A-Za-z0-9_-]{1,64})?$/;
export const Channel = Type.String({ maxLength: 105, pattern: channelName.source });

type RightsKernel = Pick<Kernel, 'records' | 'schemas' | 'permissions'>;

/** Throws 404 where no pattern fits. */
export function findChannel(
  { schemas }: Pick<RightsKernel, 'schemas'>,
  definitions: readonly ChannelDefinition[],
  channel: string,
): FoundChannel {
  const [prefix = '', given] = channel.split(':');
  const pattern = given === undefined ? prefix : `${prefix}:{id}`;
  const definition = definitions.find((one) => one.pattern === pattern);
  if (!definition) throw routerErrors.CHANNEL_NOT_FOUND();
  if (given === undefined) return { channel, id: '', definition };
  const key = definition.schema === undefined ? undefined : schemas.get(definition.schema)?.key;
  const isSelf = definition.join === 'self' || definition.send === 'self';
  const id = key ? canonicalId(key, given) : isSelf ? given.toLowerCase() : given;
  return { channel: `${prefix}:${id}`, id, definition };
}

/** Whether what somebody may do there hangs on a record. */
export const hangsOnRecord = ({ definition: { join, send } }: FoundChannel): boolean =>
  [join, send].some((one) => one === 'readers' || one === 'editors');

export interface ChannelRights {
  readonly join: boolean;
  readonly send: boolean;
}

/** Throws 503 while permissions cannot be asked. */
export async function rightsIn(
  kernel: RightsKernel,
  caller: UserCaller,
  found: FoundChannel,
): Promise<ChannelRights> {
  const { join, send } = found.definition;
  const mayJoin = await belongs(kernel, caller, found, join);
  return {
    join: mayJoin,
    send: mayJoin && (send === join || (await belongs(kernel, caller, found, send))),
  };
}

async function belongs(
  { records, schemas, permissions }: RightsKernel,
  caller: UserCaller,
  { id, definition }: FoundChannel,
  audience: ChannelDefinition['send'],
): Promise<boolean> {
  if (audience === 'users') return true;
  if (audience === 'self') return id === caller.userId;
  const { schema: name = '' } = definition;
  const schema = schemas.get(name);
  if (audience === 'none' || !schema || !isRecordId(schema.key, id)) return false;
  if (audience === 'readers') return records.mayRead(caller, name, id);
  if (!schema.modelOptions.conduit.authorization.enabled) return false;
  if (!permissions.engine) throw errors.UNAVAILABLE();
  return records.mayAct(caller, name, 'edit', id);
}
