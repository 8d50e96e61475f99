/** Name servers that never answer (CWE-400): a host that somebody names must not take the threads of files and hashes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { createNameLookup, guardedLookup, hostsOf, type NameSources } from './outbound-names.ts';

const failure = (code: string) => Object.assign(new Error(code), { code });
const address = [{ address: '192.0.2.1', family: 4 }];

/** Sources that note who is asked, and answer as told. */
function noting(sources: Partial<NameSources> = {}) {
  const asked: string[] = [];
  const { servers, system, isListed } = sources;
  const find = createNameLookup({
    servers(hostname) {
      asked.push(`servers ${hostname}`);
      return servers?.(hostname) ?? Promise.resolve(address);
    },
    system(hostname) {
      asked.push(`system ${hostname}`);
      return system?.(hostname) ?? Promise.resolve(address);
    },
    isListed: isListed ?? (async () => false),
  });
  return { asked, find };
}

describe('whoever knows a name', () => {
  it.each([
    ['example.com', ['servers example.com']],
    ['localhost', ['system localhost']],
    ['redis', ['system redis']],
    ['app.localhost', ['system app.localhost']],
    ['printer.local.', ['system printer.local.']],
    ['listed.example', ['system listed.example']],
  ])('is asked for %s', async (hostname, expected) => {
    const { asked, find } = noting({ isListed: async (name) => name === 'listed.example' });
    expect(await find(hostname)).toEqual(address);
    expect(asked).toEqual(expected);
  });

  it('is the system when the name servers know nothing', async () => {
    for (const code of ['ENOTFOUND', 'ENODATA', 'ECONNREFUSED', 'ESERVFAIL']) {
      const { asked, find } = noting({ servers: () => Promise.reject(failure(code)) });
      expect(await find('db.internal')).toEqual(address);
      expect(asked).toEqual(['servers db.internal', 'system db.internal']);
    }
  });

  it('is nobody else when the name servers are silent', async () => {
    const { asked, find } = noting({ servers: () => Promise.reject(failure('ETIMEOUT')) });
    await expect(find('silent.example')).rejects.toMatchObject({ code: 'ETIMEOUT' });
    expect(asked).toEqual(['servers silent.example']);
  });
});

describe('names that take long', () => {
  it('hold two threads at most, and those behind them give up', async () => {
    vi.useFakeTimers();
    try {
      const never = () => new Promise<typeof address>(() => undefined);
      const { asked, find } = noting({ system: never });
      const late = Array.from({ length: 20 }, (_, i) => find(`host${i}`).catch(({ code }) => code));
      await vi.advanceTimersByTimeAsync(10_000);
      expect(asked).toEqual(['system host0', 'system host1']);
      expect(await Promise.all(late.slice(2))).toEqual(Array(18).fill('ETIMEOUT'));
    } finally {
      vi.useRealTimers();
    }
  });

  it('hand their place over when they end', async () => {
    let running = 0;
    let most = 0;
    const { find } = noting({
      async system() {
        most = Math.max(most, ++running);
        await sleep(1);
        running -= 1;
        return address;
      },
    });
    const all = await Promise.all(Array.from({ length: 20 }, (_, i) => find(`host${i}`)));
    expect(all).toHaveLength(20);
    expect([most, running]).toEqual([2, 0]);
  });
});

describe('a guarded look-up', () => {
  const both = [
    { address: '10.0.0.1', family: 4 },
    { address: '2001:db8::1', family: 6 },
    { address: '192.0.2.1', family: 4 },
  ];
  const lookup = guardedLookup(
    (one) => !one.startsWith('10.'),
    (hostname) => new Error(`no ${hostname}`),
    async (hostname) => (hostname === 'inner.example' ? both.slice(0, 1) : both),
  );
  const answer = (hostname: string, options: Parameters<typeof lookup>[1]) =>
    new Promise((resolve) => lookup(hostname, options, (...args) => resolve(args)));

  it('answers what may be called, of the family that is wanted', async () => {
    expect(await answer('a.example', { all: true })).toEqual([null, both.slice(1)]);
    expect(await answer('a.example', { family: 4 })).toEqual([null, '192.0.2.1', 4]);
    expect(await answer('a.example', { family: 'IPv6' })).toEqual([null, '2001:db8::1', 6]);
    expect(await answer('inner.example', {})).toEqual([new Error('no inner.example'), []]);
  });
});

it('reads hosts files as the system does', () => {
  const text =
    '127.0.0.1 localhost\n# 10.0.0.9 old\n10.0.0.1\tDB.example  db # the database\n\n::1 ip6';
  expect([...hostsOf(text)]).toEqual(['localhost', 'db.example', 'db', 'ip6']);
});
