import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { isRunning } from '../../../test/support/processes.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { createProcessLink, createWorkerLink, type WorkerLink } from './worker-link.ts';

interface Facts {
  readonly pid: number;
  readonly priority: number;
  readonly environment: readonly string[];
  readonly doubled: Float32Array;
}

const file = new URL('../../../test/support/link-end.ts', import.meta.url);
const isLinux = process.platform === 'linux';
const links: WorkerLink[] = [];
let ends = 0;

function open(create: typeof createWorkerLink, idleMs = 60_000): WorkerLink {
  ends = 0;
  const onEnd = () => {
    ends += 1;
  };
  const link = create({ file, idleMs, heapMegabytes: 64, onEnd });
  links.push(link);
  return link;
}
afterEach(() => Promise.all(links.splice(0).map((link) => link.close())));

const factsOf = (link: WorkerLink, priority?: number): Promise<Facts> =>
  link.call<Facts>('facts', { priority, vectors: Float32Array.of(1, 2.5) });

describe.each([
  ['a thread', createWorkerLink],
  ['a process', createProcessLink],
] as const)('%s', (_, create) => {
  it('answers calls, throws what it throws, and begins anew after its end', async () => {
    const link = open(create);
    const [facts, failed] = await Promise.all([
      factsOf(link),
      link.call('fail', 'not so').catch((error: Error) => error.message),
    ]);
    expect([...facts.doubled]).toEqual([2, 5]);
    expect(failed).toBe('not so');
    const lost = Promise.allSettled(['stay', 'stay'].map((name) => link.call(name, undefined)));
    await link.close();
    for (const one of await lost) expect(one.status).toBe('rejected');
    expect(ends).toBe(1);
    expect([...(await factsOf(link)).doubled]).toEqual([2, 5]);
  });

  it('tells those who wait when it dies, and is there for the next call', async () => {
    const link = open(create);
    const lost = [link.call('die', undefined), link.call('facts', undefined)];
    for (const one of await Promise.allSettled(lost)) expect(one.status).toBe('rejected');
    expect(ends).toBe(1);
    expect([...(await factsOf(link)).doubled]).toEqual([2, 5]);
  });

  it('ends when nobody has called for a while', async () => {
    const link = open(create, 50);
    await factsOf(link);
    await waitFor(() => ends === 1);
    expect([...(await factsOf(link)).doubled]).toEqual([2, 5]);
  });
});

describe('a process', () => {
  it('knows nothing of the environment, and gives way as the session that it is', async () => {
    process.env.LINK_SECRET = 'not for it';
    const { pid, priority, environment } = await factsOf(open(createProcessLink), 10);
    delete process.env.LINK_SECRET;
    expect(pid).not.toBe(process.pid);
    expect(environment).not.toContain('LINK_SECRET');
    expect(priority).toBe(10);
    if (!isLinux) return;
    const group = (of: number | string) =>
      readFile(`/proc/${of}/autogroup`, 'utf8').catch(() => undefined);
    const [own, its] = [await group('self'), await group(pid)];
    if (own === undefined || its === undefined) return;
    expect(its).toMatch(/nice 10\s*$/);
    expect(own).not.toBe(its);
  });

  it('ends with the platform, however that ends', { skip: !isLinux }, async () => {
    const source = `
      const { createProcessLink } = await import(${JSON.stringify(new URL('worker-link.ts', import.meta.url))});
      const link = createProcessLink({ file: new URL(${JSON.stringify(file)}), idleMs: 60000, heapMegabytes: 64 });
      const { pid } = await link.call('facts', { vectors: new Float32Array(1) });
      link.call('stay').catch(() => undefined);
      console.log(pid);`;
    const parent = spawn(process.execPath, ['--input-type=module', '-e', source], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await once(parent.stdout, 'data');
    const pid = Number(line);
    expect(await isRunning(pid)).toBe(true);
    parent.kill('SIGKILL');
    await waitFor(async () => !(await isRunning(pid)), { what: 'its end' });
  });
});
