/** One message to very many: how long until it is written, what memory that takes, and how soon it stops. */
import { setTimeout as sleep } from 'node:timers/promises';
import { residentMemory } from '../machine.ts';
import type { Part, Setting } from './setting.ts';

const LOOK_MS = 100;
const MEGABYTE = 2 ** 20;

interface Course {
  /** Answers of GET that told another number than the one before. */
  readonly steps: number;
  readonly seconds: number;
  readonly queued: number;
  readonly cancelled: number;
  /** Bytes above what the platform held before. */
  readonly growth: number;
}

/** Sends it to `size` addresses, not before an hour from now, and watches until it is done or stopped. */
async function send(
  setting: Setting,
  size: number,
  stopAt = Number.POSITIVE_INFINITY,
): Promise<Course> {
  const { api, platform } = setting;
  const before = residentMemory(platform.pid);
  const began = performance.now();
  const { broadcastId } = await api('POST', '/communications/broadcasts', {
    body: {
      channel: 'email',
      subject: 'News',
      body: '<p>News of the week</p>',
      category: 'news',
      sendAt: new Date(Date.now() + 3600_000).toISOString(),
      to: { addresses: Array.from({ length: size }, (_, n) => `reader${n}@example.org`) },
    },
  });
  const path = `/communications/broadcasts/${broadcastId}`;
  let [peak, steps, last, stopped] = [before, 0, -1, false];
  for (;;) {
    peak = Math.max(peak, residentMemory(platform.pid));
    const state = await api('GET', path);
    const [queued, cancelled] = [Number(state.queued), Number(state.cancelled)];
    if (queued !== last) steps += 1;
    last = queued;
    if (!stopped && queued >= stopAt) {
      stopped = true;
      await api('POST', `${path}/stop`);
    }
    if (state.status === 'done' || (state.status === 'stopped' && cancelled === queued)) {
      const seconds = (performance.now() - began) / 1000;
      return { steps, seconds, queued, cancelled, growth: peak - before };
    }
    await sleep(LOOK_MS);
  }
}

/** `size`: recipients. */
export const measureBroadcast: Part = async (setting, { size }) => {
  // What is compiled and loaded once is not what a recipient takes.
  await send(setting, Math.ceil(size / 50));
  const small = await send(setting, Math.ceil(size / 10));
  const whole = await send(setting, size);
  const stopped = await send(setting, size, size / 4);
  const row = (what: string, { queued, cancelled, seconds, steps, growth }: Course) =>
    `| ${what} | ${queued} | ${cancelled} | ${seconds.toFixed(1)} | ${steps} | ${(growth / MEGABYTE).toFixed(0)} |`;
  return [
    `One mail to ${size} addresses, as stored messages that wait for their time. Memory is what the process held at most above what it held before, looked at every ${LOOK_MS} ms; the list itself comes in one request.`,
    '',
    '| | written | taken back | seconds | states of progress | memory, MB |',
    '|---|---:|---:|---:|---:|---:|',
    row('to a tenth of them', small),
    row('to all', whole),
    row('stopped at a quarter', stopped),
  ].join('\n');
};
