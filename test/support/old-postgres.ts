import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

/**
 * Speaks just enough of PostgreSQL's protocol to look like a server of another version: accepts every
 * login and answers every simple query with `server_version_num` and `server_version`.
 */
export async function startPretendPostgres(version: {
  number: number;
  name: string;
}): Promise<{ url: string; close(): void }> {
  const server = createServer((socket) => converse(socket, version)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `postgresql://someone:secret@127.0.0.1:${port}/app`, close: () => server.close() };
}

function converse(socket: Socket, version: { number: number; name: string }): void {
  let greeted = false;
  socket.on('error', () => undefined);
  socket.on('data', (data) => {
    if (!greeted && data.readInt32BE(4) === 80_877_103) {
      socket.write('N');
    } else if (!greeted) {
      greeted = true;
      socket.write(
        Buffer.concat([
          message('R', int32(0)),
          message('S', text('server_version'), text(version.name)),
          readyForQuery,
        ]),
      );
    } else if (data.toString('latin1', 0, 1) === 'Q') {
      socket.write(Buffer.concat([answer([String(version.number), version.name]), readyForQuery]));
    } else if (data.toString('latin1', 0, 1) === 'X') {
      socket.end();
    }
  });
}

const int16 = (value: number) => Buffer.from([value >> 8, value & 255]);
const int32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};
const text = (value: string) => Buffer.from(`${value}\0`);
const message = (type: string, ...parts: Buffer[]) => {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body]);
};
const readyForQuery = message('Z', Buffer.from('I'));

function answer(values: readonly string[]): Buffer {
  const column = (name: string) =>
    Buffer.concat([
      text(name),
      int32(0),
      int16(0),
      int32(25),
      int16(-1 & 0xffff),
      int32(-1),
      int16(0),
    ]);
  const value = (content: string) =>
    Buffer.concat([int32(Buffer.byteLength(content)), Buffer.from(content)]);
  return Buffer.concat([
    message('T', int16(values.length), column('number'), column('version')),
    message('D', int16(values.length), ...values.map(value)),
    message('C', text('SELECT 1')),
  ]);
}
