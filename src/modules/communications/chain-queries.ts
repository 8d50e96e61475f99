/** The SQL of chains and digests. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';
import type { Channel, MessageStatus } from './queries.ts';

export interface ChainStep {
  readonly channel: Channel;
  /** Milliseconds until the next step. */
  readonly timeout: number;
  /** What must have happened by then. */
  readonly until: 'accepted' | 'delivered' | 'read';
}

/** A step as it is written. */
export type FallbackStep = Pick<ChainStep, 'channel'> &
  Partial<Pick<ChainStep, 'timeout' | 'until'>>;

export interface ChainAttempt {
  readonly channel: Channel;
  readonly success: boolean;
  readonly messageId?: string | undefined;
  readonly error?: string | undefined;
}

export interface ChainRow {
  readonly id: string;
  /** Under which its steps are kept, where they are. */
  readonly name: string | null;
  readonly status: 'running' | 'done' | 'failed' | 'cancelled';
  readonly contentSealed: string;
  readonly steps: readonly ChainStep[];
  /** The step that it is at. */
  readonly position: number;
  /** Of that step, once it was begun. */
  readonly messageId: string | null;
  readonly notificationId: string | null;
  readonly stepUntil: Date | null;
  readonly attempts: readonly ChainAttempt[];
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
}

const columns = `id, name, status, content_sealed as "contentSealed", steps, position, message_id as "messageId", notification_id as "notificationId",
  step_until as "stepUntil", attempts, created_at as "createdAt", finished_at as "finishedAt"`;

export const insertChain = (
  database: Queryable,
  {
    id,
    name,
    userId,
    contentSealed,
    steps,
  }: Pick<ChainRow, 'id' | 'name' | 'contentSealed' | 'steps'> & {
    readonly userId: string | null;
  },
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.message_chains (id, name, user_id, status, content_sealed, steps)
    values (${id}::uuid, ${name}, ${userId}::uuid, 'running', ${contentSealed}, ${JSON.stringify(steps)}::jsonb)`);

/** Locked, so that one worker at a time moves it on. */
export const lockChain = async (database: Queryable, id: string): Promise<ChainRow | undefined> =>
  (
    await database.query<ChainRow>({
      text: `select ${columns} from penstock.message_chains where id = $1::uuid for update`,
      values: [id],
    })
  ).rows[0];

export const chainById = async (database: Queryable, id: string): Promise<ChainRow | undefined> =>
  (
    await database.query<ChainRow>({
      text: `select ${columns} from penstock.message_chains where id = $1::uuid`,
      values: [id],
    })
  ).rows[0];

export const moveChain = (database: Queryable, chain: ChainRow): Promise<unknown> =>
  database.query(sql`
    update penstock.message_chains set status = ${chain.status}, position = ${chain.position}::integer,
      message_id = ${chain.messageId}::uuid, notification_id = ${chain.notificationId}::uuid,
      step_until = ${chain.stepUntil}::timestamptz, attempts = ${JSON.stringify(chain.attempts)}::jsonb,
      finished_at = case when ${chain.status} <> 'running' then now() end,
      content_sealed = case when ${chain.status} = 'running' then content_sealed else '' end
    where id = ${chain.id}::uuid`);

/** How the message of a step stands and who took it, and whether its entry of the inbox was read. */
export const stepState = async (
  database: Queryable,
  messageId: string,
  notificationId: string | null,
): Promise<{
  readonly status: MessageStatus | null;
  readonly error: string | null;
  readonly provider: string | null;
  /** Before which it does not go out. */
  readonly dueAt: Date | null;
  readonly read: boolean;
}> =>
  (
    await database.query<Awaited<ReturnType<typeof stepState>>>(sql`
      select m.status, m.error, m.provider, m.due_at as "dueAt", exists (select 1 from penstock.notifications where id = ${notificationId}::uuid and read_at is not null) as read
      from (select 1) one left join penstock.messages m on m.id = ${messageId}::uuid`)
  ).rows[0] ?? { status: null, error: null, provider: null, dueAt: null, read: false };

/** Chains that wait for a user to read an entry of the inbox, or this one. */
export const chainsReadBy = async (
  database: Queryable,
  userId: string,
  notificationId: string | null = null,
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(sql`
      select id from penstock.message_chains where user_id = ${userId}::uuid and status = 'running'
        and notification_id is not null and (${notificationId}::uuid is null or notification_id = ${notificationId}::uuid) limit 100`)
  ).rows.map(({ id }) => id);

export const purgeChains = (database: Queryable, maxAgeMs: number): Promise<unknown> =>
  database.query(sql`
    delete from penstock.message_chains where status <> 'running'
      and created_at < now() - ${maxAgeMs}::double precision * interval '1 millisecond'`);

/* Digests. */

export interface DigestRow {
  readonly id: string;
  readonly channel: Channel;
  readonly recipient: string;
  readonly userId: string | null;
  readonly contentSealed: string;
  readonly items: number;
}

/** Opens a digest, or finds the one that is open; `fresh`: this is its first item. It stays locked to the end of the transaction. */
export const openDigest = async (
  transaction: Queryable,
  digest: Omit<DigestRow, 'items'> & { readonly key: string; readonly windowSeconds: number },
): Promise<{ readonly id: string; readonly items: number }> => {
  const { rows } = await transaction.query<{ id: string; items: number }>(sql`
    insert into penstock.message_digests as d (id, channel, recipient, key, user_id, content_sealed, due_at, items)
    values (${digest.id}::uuid, ${digest.channel}, ${digest.recipient}, ${digest.key}, ${digest.userId}::uuid, ${digest.contentSealed},
      now() + ${digest.windowSeconds}::double precision * interval '1 second', 1)
    on conflict (channel, recipient, key) do update set items = d.items + 1
    returning id, items`);
  const [row] = rows;
  if (!row) throw new Error('The database did not answer the digest');
  return row;
};

export const addDigestItem = (
  transaction: Queryable,
  digestId: string,
  variablesSealed: string,
): Promise<unknown> =>
  transaction.query(sql`
    insert into penstock.message_digest_items (digest_id, variables_sealed) values (${digestId}::uuid, ${variablesSealed})`);

/** Locked: whoever adds to it waits, and opens another. */
export const lockDigest = async (
  transaction: Queryable,
  id: string,
): Promise<DigestRow | undefined> =>
  (
    await transaction.query<DigestRow>(sql`
      select id, channel, recipient, user_id as "userId", content_sealed as "contentSealed", items
      from penstock.message_digests where id = ${id}::uuid for update`)
  ).rows[0];

/** The first ones, as many as a message can hold: at most `limit`, and no more than so many bytes. */
export const digestItems = async (
  transaction: Queryable,
  id: string,
  { limit, bytes }: { readonly limit: number; readonly bytes: number },
): Promise<readonly string[]> =>
  (
    await transaction.query<{ sealed: string }>(sql`
      select sealed from (
        select variables_sealed as sealed, sequence, sum(octet_length(variables_sealed)) over (order by sequence) - octet_length(variables_sealed) as before
        from penstock.message_digest_items where digest_id = ${id}::uuid order by sequence limit ${limit}::integer) item
      where before < ${bytes}::bigint order by sequence`)
  ).rows.map(({ sealed }) => sealed);

export const deleteDigest = (transaction: Queryable, id: string): Promise<unknown> =>
  transaction.query(sql`delete from penstock.message_digests where id = ${id}::uuid`);

/* What the queue has given up. */

/** Chains and digests whose time was over long ago. */
export const overdueChains = async (
  database: Queryable,
  hours: number,
): Promise<{ readonly chains: readonly string[]; readonly digests: readonly string[] }> =>
  (
    await database.query<{ chains: string[]; digests: string[] }>(sql`
      with ago as (select now() - ${hours}::integer * interval '1 hour' as at)
      select array(select id::text from penstock.message_chains, ago where status = 'running' and coalesce(step_until, created_at) < ago.at limit 1000) as chains,
        array(select id::text from penstock.message_digests, ago where due_at < ago.at limit 1000) as digests`)
  ).rows[0] ?? { chains: [], digests: [] };

/* Users who go. */

export async function forgetChainsOf(
  database: Queryable,
  userIds: readonly string[],
): Promise<void> {
  for (const table of ['message_chains', 'message_digests'])
    await database.query({
      text: `delete from penstock.${table} where user_id = any($1::uuid[])`,
      values: [userIds],
    });
}

/* Chains that are kept under a name. */

export interface ChainDefinitionRow {
  readonly name: string;
  readonly steps: readonly FallbackStep[];
  readonly allowDuplicate: boolean;
  readonly templateName: string | null;
  readonly description: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** Steps that cannot be read are none: such a chain is shown, and nothing is sent by it. */
const definitionColumns = `name, case when steps @? '$[*] ? (@.channel.type() == "string")'
    and not steps @? 'strict $[*] ? (!(@.type() == "object") || !(@.channel.type() == "string"))' then steps else '[]' end as steps, allow_duplicate as "allowDuplicate", template_name as "templateName", description,
  created_at as "createdAt", updated_at as "updatedAt"`;

/** A page of them by name, and how many there are. */
export async function listChainDefinitions(
  database: Queryable,
  {
    skip,
    limit,
    search,
  }: { readonly skip: number; readonly limit: number; readonly search?: string | undefined },
): Promise<{ readonly rows: readonly ChainDefinitionRow[]; readonly count: number }> {
  const where = `($1::text is null or position(lower($1) in lower(name)) > 0)`;
  const values = [search ?? null];
  const { rows } = await database.query<ChainDefinitionRow>({
    text: `select ${definitionColumns} from penstock.chain_definitions where ${where} order by name offset $2 limit $3`,
    values: [...values, skip, limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::int as count from penstock.chain_definitions where ${where}`,
    values,
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

export const allChainDefinitions = async (
  database: Queryable,
): Promise<readonly ChainDefinitionRow[]> =>
  (
    await database.query<ChainDefinitionRow>({
      text: `select ${definitionColumns} from penstock.chain_definitions order by name`,
    })
  ).rows;

export const chainDefinitionByName = async (
  database: Queryable,
  name: string,
): Promise<ChainDefinitionRow | undefined> =>
  (
    await database.query<ChainDefinitionRow>({
      text: `select ${definitionColumns} from penstock.chain_definitions where name = $1`,
      values: [name],
    })
  ).rows[0];

export async function saveChainDefinition(
  database: Queryable,
  {
    name,
    steps,
    allowDuplicate,
    templateName,
    description,
  }: Omit<ChainDefinitionRow, 'createdAt' | 'updatedAt'>,
): Promise<ChainDefinitionRow> {
  const { rows } = await database.query<ChainDefinitionRow>({
    text: `insert into penstock.chain_definitions (name, steps, allow_duplicate, template_name, description)
      values ($1, $2::jsonb, $3, $4, $5)
      on conflict (name) do update set steps = excluded.steps, allow_duplicate = excluded.allow_duplicate,
        template_name = excluded.template_name, description = excluded.description, updated_at = now()
      returning ${definitionColumns}`,
    values: [name, JSON.stringify(steps), allowDuplicate, templateName, description],
  });
  const [row] = rows;
  if (!row) throw new Error('A stored chain was not answered');
  return row;
}

export const deleteChainDefinition = async (database: Queryable, name: string): Promise<boolean> =>
  (await database.query(sql`delete from penstock.chain_definitions where name = ${name}`)).count >
  0;
