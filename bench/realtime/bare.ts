/**
 * What delivery costs at least: Socket.IO alone, in rooms of this process, as the platform has it. It knows no users,
 * asks nobody whether they may, and stores nothing before it tells.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from 'socket.io';

const http = createServer();
const io = new Server(http, { path: '/realtime', serveClient: false });
let seq = 0;

io.of('/chat/').on('connection', (socket) => {
  const { rooms, user } = socket.handshake.auth as { rooms: string[]; user: string };
  socket.join(rooms);
  socket.on('message', (room: string, content: string, acknowledge: (answer: object) => void) => {
    seq += 1;
    const createdAt = new Date().toISOString();
    const _id = crypto.randomUUID();
    io.of('/chat/')
      .to(room)
      .emit('message', { _id, sender: user, contentType: 'text', content, room, seq, createdAt });
    acknowledge({ ok: true, _id, createdAt, seq });
  });
});
http.listen(0, '127.0.0.1', () => process.send?.((http.address() as AddressInfo).port));
process.on('disconnect', () => process.exit(0));
