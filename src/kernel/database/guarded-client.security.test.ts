/** An answer of the database that cannot be read must not end the process: https://cwe.mitre.org/data/definitions/248.html (uncaught exception). */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { GuardedClient } from './connection.ts';

test('a message that the driver cannot read ends the connection, with the reason', async () => {
  const client = new GuardedClient({});
  const { connection } = client as unknown as {
    connection: { attachListeners(stream: PassThrough): void };
  };
  const stream = new PassThrough();
  connection.attachListeners(stream);
  const failed = once(stream, 'error');
  // A row of one field that is not there.
  stream.write(Buffer.from([0x44, 0, 0, 0, 6, 0, 1]));
  const [error] = await failed;
  expect(error).toBeInstanceOf(RangeError);
  expect(stream.destroyed).toBe(true);
});
