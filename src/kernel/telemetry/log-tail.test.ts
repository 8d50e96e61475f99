import { expect, it } from 'vitest';
import { silentLog } from '../../../test/support/log.ts';
import { createLogTail, type LogLine } from './log-tail.ts';

it('hands on what is written, with what children are bound to and without secrets', () => {
  const { log, watch } = createLogTail(silentLog);
  const lines: LogLine[] = [];
  log.info({}, 'before anybody watched');
  const stop = watch((line) => lines.push(line()));
  const error = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  log.child({ module: 'storage' }).warn({ password: 'hunter2', err: error, shelf: 3 }, 'A store');
  log.debug({}, 'a detail');
  stop();
  log.error({}, 'after');
  expect(lines).toEqual([
    {
      ...{ level: 'warn', time: expect.stringMatching(/^\d{4}-.*Z$/), message: 'A store' },
      fields: expect.objectContaining({
        ...{ module: 'storage', shelf: 3 },
        err: { name: 'Error', message: 'refused', code: 'ECONNREFUSED' },
      }),
    },
  ]);
  expect(JSON.stringify(lines)).not.toContain('hunter2');
});

it('does not tell what telling writes', () => {
  const { log, watch } = createLogTail(silentLog);
  let told = 0;
  watch(() => {
    told += 1;
    log.warn({}, 'this was told');
  });
  log.info({}, 'once');
  expect(told).toBe(1);
});
