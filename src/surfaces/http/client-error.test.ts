import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { allowLongRequest, answerClientError } from './error-answers.ts';

class FakeSocket extends EventEmitter {
  readonly writable = true;
  readonly written: string[] = [];
  ended = false;
  end(text: string): void {
    this.written.push(text);
    this.ended = true;
  }
  destroy(): void {
    this.ended = true;
  }
}

const late = Object.assign(new Error('late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });

it('answers a request that does not arrive in time, but for one whose body is read as a stream', () => {
  const plain = new FakeSocket();
  answerClientError(late, plain as unknown as Socket);
  expect(plain.written.join()).toContain('408 Request Timeout');
  const long = new FakeSocket();
  allowLongRequest(long as unknown as Socket);
  answerClientError(late, long as unknown as Socket);
  expect([long.ended, long.written]).toEqual([false, []]);
  answerClientError(
    Object.assign(new Error('nonsense'), { code: 'HPE_INVALID' }),
    long as unknown as Socket,
  );
  expect(long.written.join()).toContain('400 Bad Request');
});
