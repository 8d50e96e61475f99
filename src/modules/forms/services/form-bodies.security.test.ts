/** Whoever sends a form may stop in the middle: what is refused meanwhile is the failure of the form, and of nothing else. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { BodyStream } from '../../../kernel/operations/operation-input.ts';
import { readFormBody } from './form-bodies.ts';

const unhandled: unknown[] = [];
const note = (reason: unknown): void => void unhandled.push(reason);
beforeEach(() => {
  unhandled.length = 0;
  process.on('unhandledRejection', note);
});
afterEach(() => void process.off('unhandledRejection', note));

const part = (name: string): string =>
  `--x\r\nContent-Disposition: form-data; name="${name}"; filename="a.txt"\r\n\r\nhello`;

/** Pauses after the first piece, longer than a turn of the loop: then the process looks for what nobody handles. */
const paused = (first: string, rest: string): BodyStream => ({
  contentType: 'multipart/form-data',
  contentTypeHeader: 'multipart/form-data; boundary=x',
  length: undefined,
  async *[Symbol.asyncIterator]() {
    yield Buffer.from(first);
    await new Promise((resolve) => setTimeout(resolve, 20));
    yield Buffer.from(rest);
  },
});

const refuse = async (): Promise<void> => {
  throw new Error('refused');
};

it.each([
  ['in the middle of a file', paused(part('a'), ' again\r\n--x--\r\n')],
  ['between files', paused(`${part('a')}\r\n${part('b')}\r\n`, `${part('c')}\r\n--x--\r\n`)],
  ['and never ends', paused(part('a'), ' again')],
])('a file is refused while its sender pauses %s', async (_where, stream) => {
  await expect(readFormBody(stream, refuse)).rejects.toThrow('refused');
  expect(unhandled).toEqual([]);
});

it('one of two files is refused while the other still comes', async () => {
  const read: string[] = [];
  const stream = paused(`${part('bad')}\r\n${part('good')}`, ' again\r\n--x--\r\n');
  const reading = readFormBody(stream, async ({ field, body }) => {
    if (field === 'bad') throw new Error('refused');
    for await (const chunk of body) read.push(chunk.toString());
  });
  await expect(reading).rejects.toThrow('refused');
  expect(unhandled).toEqual([]);
});
