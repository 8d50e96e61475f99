/** Random batches have the outcomes that the function of earlier releases has, which takes one message after the other. */
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import type { TestDatabase } from '../../../test/support/database.ts';
import { platformDatabase } from '../../../test/support/platform.ts';
import { newId } from '../../kernel/ids.ts';

const [ROOMS, USERS, OLD] = [3, 3, 4];

let database: TestDatabase;
let client: pg.Client;
const users = Array.from({ length: USERS }, () => newId());
const files = Array.from({ length: 2 }, () => newId());

const query = async (text: string, values: readonly unknown[] = []): Promise<readonly Json[]> =>
  (await client.query<Json>(text, [...values])).rows;

beforeAll(async () => {
  database = await platformDatabase('embedded');
  client = new pg.Client(database.url);
  await client.connect();
  const now = new Date();
  const flags = { isVerified: true, hasTwoFA: false, requiresTwoFA: false, isAnonymous: false };
  await insert(
    'User',
    users.map((_id) => ({ _id, createdAt: now, updatedAt: now, __v: 0, active: true, ...flags })),
  );
  const file = { folder: '/', container: 'c', size: 1, isPublic: false, state: 'ready', __v: 0 };
  const generations = { generation: 1, lastGeneration: 1, createdAt: now, updatedAt: now };
  await insert(
    'File',
    files.map((_id) => ({ ...file, ...generations, _id, name: _id, folderIds: [] })),
  );
});
afterAll(async () => {
  await client?.end();
  await database?.drop();
});

/** As they are stored, with what their tables fill in. */
async function insert(table: string, rows: readonly object[]): Promise<void> {
  if (rows.length === 0) return;
  const columns = Object.keys(rows[0] ?? {}).map((name) => `"${name}"`);
  await query(
    `insert into "app"."${table}" (${columns}) select ${columns} from jsonb_populate_recordset(null::"app"."${table}", $1::jsonb)`,
    [JSON.stringify(rows)],
  );
}

const oneOf = (count: number) => fc.nat({ max: count - 1 });
const room = fc.record({
  deleted: fc.nat({ max: 5 }).map((n) => n === 0),
  members: fc.array(fc.nat({ max: 4 }), { minLength: USERS, maxLength: USERS }),
  silenced: fc.option(oneOf(USERS)),
});
const item = fc.record({
  room: oneOf(ROOMS),
  sender: fc.option(oneOf(USERS)),
  content: fc.option(fc.string({ maxLength: 8 }).map((text) => text.replaceAll('\0', ''))),
  files: oneOf(3),
  /** The nonce of an earlier message, whose sender sends this one then. */
  again: fc.option(oneOf(OLD)),
  /** It answers an earlier message; one of another room, where there is none. */
  root: fc.option(oneOf(OLD + 1)),
});
const batches = fc.record({
  rooms: fc.array(room, { minLength: ROOMS, maxLength: ROOMS }),
  items: fc.array(item, { minLength: 1, maxLength: 12 }),
});
type Batch = typeof batches extends fc.Arbitrary<infer B> ? B : never;

const minutesAgo = (minutes: number): string =>
  new Date(Date.now() - minutes * 60_000).toISOString();

/** What there is before: of each room four messages, the first older than nonces are known, the last one gone. */
function rowsOf({ rooms }: Batch) {
  const [now, ids] = [minutesAgo(0), rooms.map(() => newId())];
  const changed = { createdAt: now, updatedAt: now, __v: 0 };
  const counters = { lastSeq: OLD, lastChange: 9, removedCount: 0, pushedSeq: 0 };
  const messages = ids.flatMap((id) =>
    Array.from({ length: OLD }, (_, n) => ({
      ...{ ...changed, _id: newId(), room: id, senderUser: users[n % USERS] },
      ...{
        seq: n + 1,
        change: n + 1,
        nonce: `nonce ${n}`,
        createdAt: minutesAgo(n === 0 ? 60 : 1),
      },
      ...{ messageType: 'text', files: [], mentions: [], replyCount: 0, removed: false },
      deleted: n === OLD - 1,
    })),
  );
  return {
    messages,
    rooms: rooms.map(({ deleted }, n) => ({
      ...{ ...changed, ...counters, _id: ids[n], name: 'room', deleted },
    })),
    members: rooms.flatMap(({ members, silenced }, n) =>
      users.flatMap((user, at) => {
        const silencedUntil = at === silenced ? '2200-01-01' : null;
        const place = { joinedAt: now, joinedSeq: 0, lastReadSeq: 0, muted: false, __v: 0 };
        const row = { ...place, _id: newId(), room: ids[n], user, role: 'member', silencedUntil };
        return members[at] === 0 ? [] : [row];
      }),
    ),
  };
}
type Rows = ReturnType<typeof rowsOf>;

function itemsOf({ items }: Batch, { rooms, messages }: Rows) {
  const marks = new Set<string>();
  return items.map(({ room: at, sender, content, files: count, again, root }, n) => {
    const earlier = again === null ? undefined : messages[at * OLD + again];
    const from = earlier ? earlier.senderUser : sender === null ? null : users[sender];
    // What repeats one of the same batch waits until that is written (room-queues.ts).
    const mark = `${at} ${again}`;
    const nonce = earlier && !marks.has(mark) ? earlier.nonce : null;
    marks.add(mark);
    return {
      ...{ n, room: rooms[at]?._id, id: newId(), type: 'text', content, actor: 'system:test' },
      ...{ sender: from, asMember: from !== null, nonce, mentions: users.slice(0, count) },
      files: files.slice(0, count),
      threadRoot: root === null ? null : (messages[at * OLD + root]?._id ?? null),
    };
  });
}

/** What a way of writing them answers and leaves; nothing of it is kept. */
async function outcomeOf(rows: Rows, write: () => Promise<readonly Json[]>) {
  await query('begin');
  try {
    await insert('ChatRoom', rows.rooms);
    await insert('ChatMember', rows.members);
    await insert('ChatMessage', rows.messages);
    const answers = await write();
    const ids = [rows.rooms.map(({ _id }) => _id)];
    return {
      answers: answers.toSorted((a, b) => a.n - b.n),
      messages: await query(
        `select to_jsonb(m) - '{createdAt,updatedAt}'::text[] as row from "app"."ChatMessage" m where "room" = any($1::uuid[]) order by "room", "seq"`,
        ids,
      ),
      rooms: await query(
        `select "_id", "lastSeq", "lastChange", "lastMessageAt" is null as quiet from "app"."ChatRoom" where "_id" = any($1::uuid[]) order by "_id"`,
        ids,
      ),
      events: await query(
        `select topic, ids, payload - 'createdAt' as payload, length(payload->>'createdAt') as time, actor from penstock.outbox
         where xid = pg_current_xact_id() order by payload->>'room', seq`,
      ),
    };
  } finally {
    await query('rollback');
  }
}

const answer = 'n, outcome, id, seq, change, created_at is null as nowhen';

it('has the outcomes that messages have one after the other', async () => {
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(batches, async (batch) => {
      const rows = rowsOf(batch);
      const items = itemsOf(batch, rows);
      const rooms = [...new Set(items.map(({ room: id }) => id))];
      const together = await outcomeOf(rows, () =>
        query(`select ${answer} from penstock.chat_send_batch($1::uuid[], $2::jsonb, 300, true)`, [
          rooms,
          JSON.stringify(items),
        ]),
      );
      const single = await outcomeOf(rows, async () => {
        const answers: Json[] = [];
        for (const id of rooms)
          answers.push(
            ...(await query(`select ${answer} from penstock.chat_send($1::uuid, $2::jsonb, 300)`, [
              id,
              JSON.stringify(items.filter((one) => one.room === id)),
            ])),
          );
        return answers;
      });
      for (const { outcome } of together.answers) seen.add(outcome);
      expect(together).toEqual(single);
    }),
    { numRuns: 60 },
  );
  expect([...seen].toSorted()).toEqual(['duplicate', 'noRoom', 'noRoot', 'sent', 'silenced']);
});
