/**
 * What delivery costs at least: Socket.IO alone, in rooms of this process, as the platform has it. It knows no users and
 * asks nobody whether they may. In `/chat/` it stores nothing before it tells; in `/durable/` each message is a row that is
 * committed before anybody hears of it, in the PostgreSQL that the platform uses.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { type Namespace, Server } from 'socket.io';

const http = createServer();
const io = new Server(http, { path: '/realtime', serveClient: false });

interface Message {
  readonly _id: string;
  readonly room: string;
  readonly sender: string;
  readonly content: string;
  readonly seq: number;
  readonly createdAt: string;
}

let seq = 0;

/** Tells a room of what is sent to it once it is kept. */
function serve(namespace: Namespace, keep: (message: Message) => Promise<unknown> | undefined) {
  namespace.on('connection', (socket) => {
    const { rooms, user } = socket.handshake.auth as { rooms: string[]; user: string };
    socket.join(rooms);
    socket.on(
      'message',
      async (room: string, content: string, acknowledge: (answer: object) => void) => {
        seq += 1;
        const createdAt = new Date().toISOString();
        const message = { _id: crypto.randomUUID(), sender: user, content, room, seq, createdAt };
        const kept = keep(message);
        if (kept) await kept;
        namespace.to(room).emit('message', { ...message, contentType: 'text' });
        acknowledge({ ok: true, _id: message._id, createdAt, seq: message.seq });
      },
    );
  });
}

/** A table as a chat needs it to answer a page of a room, and connections that wait for the disk side by side. */
async function openTable(connection: pg.ClientConfig): Promise<pg.Pool> {
  const pool = new pg.Pool({ ...connection, max: 20 });
  await pool.query(`
    create schema bare;
    create table bare.message (id uuid primary key, room uuid not null, sender uuid not null, content text not null,
      seq bigint not null, created_at timestamptz not null, unique (room, seq))`);
  return pool;
}

const insert = {
  name: 'message',
  text: 'insert into bare.message (id, room, sender, content, seq, created_at) values ($1, $2, $3, $4, $5, $6)',
};

serve(io.of('/chat/'), () => undefined);
process.once('message', async (connection: pg.ClientConfig) => {
  const pool = await openTable(connection);
  // Ends with the platform, whose server it is.
  pool.on('error', () => undefined);
  serve(io.of('/durable/'), ({ _id, room, sender, content, seq: place, createdAt }) =>
    pool.query({ ...insert, values: [_id, room, sender, content, place, createdAt] }),
  );
  process.send?.('ready');
});
http.listen(0, '127.0.0.1', () => process.send?.((http.address() as AddressInfo).port));
process.on('disconnect', () => process.exit(0));
