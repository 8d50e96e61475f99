/** A user in 5,000 rooms, a room of 10,000 members, a million messages: seeded in the database, asked over the API. */
import pg from 'pg';
import { median } from '../statistics.ts';
import { type LoadSocket, openSocket } from './clients.ts';
import type { Account, Setting } from './setting.ts';

const ROOMS = 5_000;
const MEMBERS = 10_000;
const TIMES = 15;

/** Rows like one that is there, with some columns of their own; `n` counts them. */
const copies = (table: string, own: string, times: number) => `
  insert into "app"."${table}"
  select (jsonb_populate_record(x, jsonb_build_object('_id', gen_random_uuid(), ${own}))).*
  from "app"."${table}" x, generate_series(1, ${times}) n where x."_id" = $1`;

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const began = performance.now();
  await work();
  return performance.now() - began;
};

async function medianOf(work: (n: number) => Promise<unknown>): Promise<number> {
  const took: number[] = [];
  for (let n = 0; n < TIMES; n += 1) took.push(await timed(() => work(n)));
  return median(took);
}

async function seed(
  client: pg.Client,
  { user, room, member, message }: Readonly<Record<string, string>>,
  messages: number,
): Promise<void> {
  await client.query(copies('User', `'email', 'copy' || n || '@example.com'`, MEMBERS), [user]);
  await client.query(copies('ChatRoom', `'name', 'room ' || n`, ROOMS), [room]);
  const others = `insert into "app"."ChatMember" select (jsonb_populate_record(x, jsonb_build_object('_id', gen_random_uuid(),`;
  await client.query(
    `${others} 'user', u."_id"))).* from "app"."ChatMember" x,
      (select "_id" from "app"."User" where "email" like 'copy%') u where x."_id" = $1`,
    [member],
  );
  await client.query(
    `${others} 'room', r."_id"))).* from "app"."ChatMember" x,
      (select "_id" from "app"."ChatRoom" where "name" like 'room %') r where x."_id" = $1`,
    [member],
  );
  await client.query(
    copies('ChatMessage', `'seq', n + 1, 'change', n + 1, 'message', 'text ' || n`, messages),
    [message],
  );
  await client.query(
    `update "app"."ChatRoom" set "lastSeq" = $2, "lastChange" = $2 where "_id" = $1`,
    [room, messages + 1],
  );
  await client.query('analyze');
}

async function send(socket: LoadSocket, room: string): Promise<void> {
  const answer = (await socket.ask('message', room, 'hello')) as { readonly ok: boolean };
  if (!answer.ok) throw new Error(JSON.stringify(answer));
}

const idOf = async (client: pg.Client, table: string, column: string, value: string) =>
  (await client.query(`select "_id" from "app"."${table}" where "${column}" = $1`, [value])).rows[0]
    ._id as string;

/** Lines of a table. */
export async function skew(setting: Setting, messages: number): Promise<readonly string[]> {
  const { platform, api } = setting;
  const [owner, friend] = (await setting.accounts(2)) as [Account, Account];
  const make = async (roomName: string): Promise<string> =>
    (
      await api('POST', '/chat/rooms', {
        body: { roomName, users: [friend.userId] },
        token: friend.token,
      })
    ).roomId ?? '';
  await api('POST', '/chat/rooms', {
    body: { roomName: 'own', users: [owner.userId] },
    token: owner.token,
  });
  const room = await make('large');
  await api('PUT', `/chat/rooms/${room}/add`, { body: { users: [owner.userId] } });
  const small = await make('small');
  await api('PUT', `/chat/rooms/${small}/add`, { body: { users: [owner.userId] } });
  const open = () =>
    openSocket({
      origin: platform.clientOrigin,
      namespace: '/chat/',
      auth: { token: owner.token },
    });
  const socket = await open();
  await send(socket, room);
  await send(socket, small);
  const { connection } = await platform.database();
  const client = new pg.Client(connection);
  await client.connect();
  // Ends with the platform when something fails.
  client.on('error', () => undefined);
  const member = (
    await client.query(`select "_id" from "app"."ChatMember" where "user" = $1 and "room" = $2`, [
      owner.userId,
      room,
    ])
  ).rows[0]._id;
  const message = await idOf(client, 'ChatMessage', 'room', room);
  await seed(client, { user: owner.userId, room, member, message }, messages);
  await client.end();
  socket.close();
  const get = (path: string) => api('GET', path, { token: owner.token });
  const connecting = await medianOf(async () => (await open()).close());
  const own = await open();
  const list = await medianOf(() => get('/chat/rooms?limit=25'));
  const inSmall = await medianOf(() => send(own, small));
  const inLarge = await medianOf(() => send(own, room));
  const page = (skip: number) =>
    medianOf(() => get(`/chat/messages?roomId=${room}&limit=25&skip=${skip}`));
  const [first, deep] = [await page(0), await page(Math.floor(messages * 0.9))];
  own.close();
  const line = (what: string, ms: number, goal: string) =>
    `| ${what} | ${ms.toFixed(1)} | ${goal} |`;
  return [
    line(`a user in ${ROOMS} rooms connects`, connecting, '<= 1000'),
    line('the list of their rooms, with unread counts', list, '<= 20'),
    line('a message to a room of 2', inSmall, ''),
    line(`a message to a room of ${MEMBERS} members`, inLarge, 'the same'),
    line(`the first page of ${messages} messages`, first, ''),
    line('a page behind nine tenths of them', deep, 'the same'),
  ];
}
