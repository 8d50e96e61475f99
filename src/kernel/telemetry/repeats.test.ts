import { expect, it } from 'vitest';
import { createLogger, createRepeats } from './create-logger.ts';

const outage = () =>
  Object.assign(new Error(`connect ECONNREFUSED 127.0.0.1:${Math.floor(Math.random() * 60_000)}`), {
    code: 'ECONNREFUSED',
  });

it('writes one line per cause and minute, and then how often it came', () => {
  let at = 0;
  const lines: object[] = [];
  const repeats = createRepeats(() => at);
  const fail = (job: string) =>
    repeats.take(
      { level: 'error', scope: '', fields: { job, err: outage() }, message: 'A job failed' },
      (level, fields, message) => lines.push({ level, ...fields, message }),
    );
  for (let second = 0; second < 60; second += 1) {
    at = second * 1_000;
    for (let i = 0; i < 10; i += 1) fail('mail');
  }
  fail('index');
  expect(lines).toMatchObject([{ job: 'mail' }, { job: 'index' }]);
  expect(lines[0]).not.toHaveProperty('repeated');
  at = 61_000;
  fail('mail');
  expect(lines.slice(2)).toMatchObject([
    { job: 'mail', repeated: 599, withinSeconds: 60 },
    { job: 'mail' },
  ]);
});

it('holds for the log of the platform and its children, and counts errors only', () => {
  const lines: Record<string, unknown>[] = [];
  const log = createLogger(
    { logLevel: 'info' },
    { write: (line) => void lines.push(JSON.parse(line)) },
  );
  for (const surface of ['client', 'admin']) {
    const child = log.child({ surface });
    for (let i = 0; i < 50; i += 1)
      child.error({ err: outage(), requestId: String(i) }, 'A request failed');
  }
  for (let i = 0; i < 3; i += 1) log.info({}, 'Served');
  log.error({ err: new Error('something else') }, 'A request failed');
  expect(lines.map(({ surface, message }) => [surface, message])).toEqual([
    ['client', 'A request failed'],
    ['admin', 'A request failed'],
    [undefined, 'Served'],
    [undefined, 'Served'],
    [undefined, 'Served'],
    [undefined, 'A request failed'],
  ]);
});
