/** Messages that are written together: what one of them suffers is nothing to the others. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  type ChatClient,
  closeClients,
  configure,
  connectChat,
  makeRoom,
} from '../../../../acceptance/chat/clients.ts';
import type { Json } from '../../../../test/support/api.ts';
import type { TestDatabase } from '../../../../test/support/database.ts';
import {
  createTestNode,
  type TestNode,
  type TestUser,
  testAdminPassword,
  testMasterKey,
} from '../../../../test/support/node.ts';
import { platformDatabase, testEnvironment } from '../../../../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../../../../test/support/temporary-folder.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import { readSettings } from '../../../kernel/settings/settings.ts';
import { type Platform, startPlatform } from '../../../platform.ts';
import { createSending } from './sending.ts';

const ROOMS = 12;

describe('messages of many rooms at once', () => {
  let database: TestDatabase;
  let dataDir: string;
  let platform: Platform;
  let node: TestNode;
  let ann: TestUser;
  let bob: TestUser;
  let rooms: readonly string[];

  beforeAll(async () => {
    database = await platformDatabase('embedded');
    dataDir = await temporaryFolder('data');
    platform = await startPlatform({
      settings: readSettings(testEnvironment(dataDir, database.url)),
    });
    node = createTestNode(platform.addresses, {
      masterKey: testMasterKey,
      adminPassword: testAdminPassword,
    });
    await configure(node, { rateLimit: { messagesPer10s: 10_000 } });
    [ann, bob] = [await node.registerUser(), await node.registerUser()];
    rooms = await Promise.all(Array.from({ length: ROOMS }, () => makeRoom(ann, [bob])));
  });
  afterEach(closeClients);
  afterAll(async () => {
    await platform?.close();
    await database?.drop();
    await removeFolder(dataDir);
  });

  const run = async (text: string, values: readonly unknown[] = []): Promise<readonly Json[]> =>
    (await platform.kernel.database.query<Json>({ text, values })).rows;
  /** Transactions that stored messages of these rooms. */
  const transactions = async (): Promise<number> =>
    (await run('select count(distinct xmin::text)::int as count from "app"."ChatMessage"'))[0]
      ?.count;
  const seqsOf = (client: ChatClient, room: string): readonly number[] =>
    client.of('message').flatMap((one) => (one.room === room ? [one.seq] : []));
  /** What a room has: each number once, and the counters of the room with the last one. */
  async function expectWhole(room: string, count: number): Promise<void> {
    const stored = await run(
      'select "seq", "change" from "app"."ChatMessage" where "room" = $1 order by "seq"',
      [room],
    );
    const numbers = Array.from({ length: count }, (_, n) => n + 1);
    expect(stored.map(({ seq }) => seq)).toEqual(numbers);
    expect(stored.map(({ change }) => change)).toEqual(numbers);
    const [row] = await run(
      `select r."lastSeq" as seq, (select count(*)::int from penstock.outbox o where o.topic = 'chat:create:ChatMessage'
        and o.payload->>'room' = $1::text) as events from "app"."ChatRoom" r where r."_id" = $1::uuid`,
      [room],
    );
    expect(row).toEqual({ seq: count, events: count });
  }

  it('writes them in few transactions, each room in its order', async () => {
    const a = await connectChat(node, ann);
    const b = await connectChat(node, bob);
    // A socket may send 50 events a second.
    const acks = await Promise.all(
      Array.from({ length: 48 }, (_, n) => a.ask('message', rooms[n % ROOMS], `${n}`)),
    );
    expect(acks.every(({ ok }) => ok)).toBe(true);
    await waitFor(() => b.of('message').length === 48);
    for (const room of rooms) {
      expect(seqsOf(b, room)).toEqual([1, 2, 3, 4]);
      const contents = b.of('message').flatMap((one) => (one.room === room ? [one.content] : []));
      expect(contents.map(Number)).toEqual(contents.map(Number).toSorted((x, y) => x - y));
      await expectWhole(room, 4);
      expect((await bob.api.get(`/chat/rooms/${room}`)).body.unreadCount).toBe(4);
    }
    expect(await transactions()).toBeLessThan(24);
  });

  it('answers each with its own error', async () => {
    const [room = '', silenced = '', foreign = ''] = [
      await makeRoom(ann, [bob]),
      await makeRoom(ann, [bob]),
      await makeRoom(bob, [bob]),
    ];
    const until = new Date(Date.now() + 3_600_000).toISOString();
    await run(
      'update "app"."ChatMember" set "silencedUntil" = $3 where "room" = $1 and "user" = $2',
      [silenced, ann.userId, until],
    );
    const gone = '00000000-0000-7000-8000-000000000000';
    const a = await connectChat(node, ann);
    const twice = { contentType: 'text', content: 'twice', nonce: 'n' };
    const root = (await a.ask('message', room, 'root'))._id;
    const text = { contentType: 'text', content: 'x' };
    const acks: readonly Json[] = await Promise.all([
      a.ask('message', room, twice),
      a.ask('message', silenced, 'x'),
      a.ask('message', foreign, 'x'),
      a.ask('message', gone, 'x'),
      a.ask('message', room, { ...text, threadRoot: gone }),
      a.ask('message', room, { ...text, threadRoot: root }),
      a.ask('message', room, { ...text, threadRoot: root }),
      a.ask('message', room, twice),
      a.ask('message', room, 'last'),
    ]);
    expect(acks.map((ack) => ack.error?.code ?? (ack.duplicate ? 'again' : ack.seq))).toEqual([
      2,
      'CHAT_WRITING_DENIED',
      'CHAT_ROOM_NOT_FOUND',
      'CHAT_ROOM_NOT_FOUND',
      'CHAT_MESSAGE_NOT_FOUND',
      3,
      4,
      'again',
      5,
    ]);
    expect(acks[7]?._id).toBe(acks[0]?._id);
    expect((await ann.api.get(`/chat/messages/${root}`)).body.replyCount).toBe(2);
    await expectWhole(room, 5);
  });

  it('takes a nonce for a new message when its time is over', async () => {
    const room = await makeRoom(ann, [bob]);
    const a = await connectChat(node, ann);
    const message = { contentType: 'text', content: 'x', nonce: 'old' };
    const first = await a.ask('message', room, message);
    await run(
      `update "app"."ChatMessage" set "createdAt" = now() - interval '1 day' where "_id" = $1`,
      [first._id],
    );
    const again = await a.ask('message', room, message);
    expect(again).toMatchObject({ ok: true, seq: 2 });
    expect(again._id).not.toBe(first._id);
    expect(await a.ask('message', room, message)).toMatchObject({ seq: 2, duplicate: true });
  });

  it('keeps only the messages of a room waiting that somebody holds', async () => {
    const [held, free] = [await makeRoom(ann, [bob]), await makeRoom(ann, [bob])];
    const a = await connectChat(node, ann);
    const order: string[] = [];
    const say = async (room: string, content: string): Promise<void> => {
      const { ok } = await a.ask('message', room, content);
      order.push(ok ? content : 'refused');
    };
    let waiting: readonly Promise<void>[] = [];
    await platform.kernel.database.transaction(async (transaction) => {
      await transaction.query({
        text: 'select from "app"."ChatRoom" where "_id" = $1 for update',
        values: [held],
      });
      waiting = ['one', 'two'].map((content) => say(held, content));
      await Promise.all(['a', 'b', 'c'].map((content) => say(free, content)));
      await say(free, 'd');
      expect(order).toEqual(['a', 'b', 'c', 'd']);
    });
    await Promise.all(waiting);
    expect(order).toEqual(['a', 'b', 'c', 'd', 'one', 'two']);
    await expectWhole(held, 2);
    await expectWhole(free, 4);
  });

  it('stores all others when one cannot be stored', async () => {
    const a = await connectChat(node, ann);
    const own = await Promise.all(Array.from({ length: 4 }, () => makeRoom(ann, [bob])));
    await run(`create function public.refuse_poison() returns trigger language plpgsql as $$
      begin if new."message" = 'poison' then raise exception 'poison'; end if; return new; end $$`);
    await run(`create trigger refuse_poison before insert on "app"."ChatMessage"
      for each row execute function public.refuse_poison()`);
    try {
      const acks: readonly Json[] = await Promise.all(
        Array.from({ length: 24 }, (_, n) =>
          a.ask('message', own[n % 4], n === 13 ? 'poison' : `${n}`),
        ),
      );
      expect(acks.flatMap(({ ok }, n) => (ok ? [] : [n]))).toEqual([13]);
      expect(acks[13]?.error.status).toBe(500);
      expect(JSON.stringify(acks[13])).not.toContain('poison');
    } finally {
      await run('drop trigger refuse_poison on "app"."ChatMessage"');
    }
    for (const [n, room] of own.entries()) await expectWhole(room, n === 1 ? 5 : 6);
  });
});

describe('batches', () => {
  /** A sender whose batches are committed when the test says so. */
  function createControlled(onStored: () => void = () => undefined) {
    const batches: { readonly size: number; commit(): void }[] = [];
    let indexed = 0;
    const database = {
      async query({ values = [], text }: { values?: readonly unknown[]; text: string }) {
        if (text.includes('gin_clean_pending_list')) {
          indexed += 1;
          return { rows: [] };
        }
        const items = JSON.parse(String(values[1])) as { n: number; id: string }[];
        const { promise, resolve } = Promise.withResolvers<void>();
        batches.push({ size: items.length, commit: resolve });
        await promise;
        const place = { outcome: 'sent', seq: 1, change: 1, createdAt: new Date() };
        return { rows: items.map(({ n, id }) => ({ n, id, ...place })) };
      },
    };
    const sending = createSending({
      database: database as never,
      events: { wakeLater: () => undefined } as never,
      hub: { stored: onStored },
      nonceWindowSeconds: () => 300,
      metrics: { persisted: () => undefined, sent: () => undefined, refused: () => undefined },
      onSent: () => undefined,
      log: { warn: () => undefined },
    });
    let made = 0;
    const send = (count: number) =>
      Array.from({ length: count }, () => {
        made += 1;
        return sending.send(`room ${made}`, {
          ...{
            id: `${made}`,
            sender: null,
            asMember: false,
            type: 'text',
            content: 'x'.repeat(600),
          },
          ...{ files: [], mentions: [], nonce: null, threadRoot: null, actor: 'system:test' },
        });
      });
    const sizes = () => batches.map(({ size }) => size);
    return { batches, send, sizes, indexed: () => indexed };
  }
  const turns = async (): Promise<void> => {
    for (let n = 0; n < 5; n += 1) await new Promise((resolve) => setImmediate(resolve));
  };

  it('begin at once, and what comes while one is written goes with the next', async () => {
    const { batches, send, sizes } = createControlled();
    const sent = [...send(1)];
    await turns();
    expect(sizes()).toEqual([1]);
    for (const count of [2, 3]) {
      sent.push(...send(count));
      batches.at(-1)?.commit();
      await waitFor(() => sizes().at(-1) === count);
    }
    batches.at(-1)?.commit();
    await Promise.all(sent);
    expect(sizes()).toEqual([1, 2, 3]);
  });

  it('are on their way before what the last one brought goes out to sockets', async () => {
    const written: number[] = [];
    // Packets go out at the end of the turn in which they are told.
    const { batches, send } = createControlled(() =>
      setImmediate(() => written.push(batches.length)),
    );
    const sent = [...send(1)];
    await turns();
    sent.push(...send(2));
    batches[0]?.commit();
    await waitFor(() => written.length > 0);
    expect(written).toEqual([2]);
    batches[1]?.commit();
    await Promise.all(sent);
  });

  it('are written two at a time where a whole one waits, and no more', async () => {
    const { batches, send, sizes } = createControlled();
    // However long this takes, the first one is not held up.
    const clock = vi.spyOn(performance, 'now').mockReturnValue(1_000);
    const sent = [...send(1)];
    await turns();
    sent.push(...send(99));
    await turns();
    expect(sizes()).toEqual([1]);
    sent.push(...send(1));
    await turns();
    expect(sizes()).toEqual([1, 100]);
    sent.push(...send(150));
    await turns();
    expect(sizes()).toEqual([1, 100]);
    clock.mockRestore();
    for (let at = 0; at < 4; at += 1) {
      await waitFor(() => batches.length > at);
      batches[at]?.commit();
    }
    await Promise.all(sent);
    expect(sizes()).toEqual([1, 100, 100, 50]);
  });

  it('have their words put into the index now and then, beside them', async () => {
    const { batches, send, indexed } = createControlled();
    const sent = send(500);
    for (let at = 0; at < 5; at += 1) {
      await waitFor(() => batches.length > at);
      batches[at]?.commit();
    }
    await Promise.all(sent);
    expect(indexed()).toBeGreaterThan(0);
    expect(indexed()).toBeLessThan(3);
  });
});
