import { describe, expect, it } from 'vitest';
import { errors } from '../../../kernel/errors.ts';
import {
  createPermissionPort,
  type PermissionEngine,
  type RowPredicate,
} from '../../../kernel/permissions.ts';
import { readGuarded, readOptimistically } from './optimistic-read.ts';

const sure: RowPredicate = { shape: 'sure', compile: () => 'true' };

/** Dependencies whose engine believes in `believed`; `certain` counts how often it was asked to be sure. */
function fixture(believed: Partial<RowPredicate> | undefined) {
  const asked = { certain: 0, confirmed: 0 };
  const permissions = createPermissionPort();
  const predicate = async () => {
    asked.certain += 1;
    return sure;
  };
  const belief = { ...sure, shape: 'believed', ...believed };
  permissions.engine = {
    predicate,
    ...(believed && { cachedPredicate: async () => belief }),
  } as unknown as PermissionEngine;
  return { asked, dependencies: { permissions } };
}

const confirming = (fixture: { asked: { confirmed: number } }, answer: boolean) => async () => {
  fixture.asked.confirmed += 1;
  return answer;
};

const predicateOf = ({ permissions }: { permissions: ReturnType<typeof createPermissionPort> }) =>
  permissions.engine?.predicate({ kind: 'user' } as never, 'read', 'Doc') as Promise<RowPredicate>;

describe('a read with rights that are remembered', () => {
  it.each([true, false])('counts only when they hold (%s)', async (holds) => {
    const asked = { confirmed: 0 };
    const { dependencies, asked: seen } = fixture({ confirm: confirming({ asked }, holds) });
    const shapes: string[] = [];
    const answer = await readOptimistically(dependencies, async (given) => {
      shapes.push((await predicateOf(given)).shape);
      return shapes.at(-1);
    });
    // Rights that change again and again are asked for in the end.
    expect([answer, asked.confirmed, seen.certain]).toEqual(
      holds ? ['believed', 1, 0] : ['sure', 10, 1],
    );
  });

  it.each([true, false])(
    'counts only when what was looked up comes to the same (%s)',
    async (same) => {
      const asked = { confirmed: 0 };
      const { dependencies, asked: seen } = fixture({
        confirm: async () => true,
        guard: () => 'true',
        recheck: confirming({ asked }, same),
      });
      for (const read of [readOptimistically, readGuarded])
        await read(dependencies, async (given) => {
          const { guard } = await predicateOf(given);
          return guard?.(() => '') ?? 'without';
        });
      expect([asked.confirmed, seen.certain]).toEqual(same ? [2, 0] : [20, 2]);
    },
  );

  it('is confirmed when it has ended, and made again by what is remembered then', async () => {
    const steps: string[] = [];
    const { dependencies, asked } = fixture({
      confirm: async () => {
        steps.push('asked');
        return steps.length > 2;
      },
    });
    for (const read of [readOptimistically, readGuarded]) {
      steps.length = 0;
      const answer = await read(dependencies, async (given) => {
        const { shape } = await predicateOf(given);
        await new Promise((resolve) => setTimeout(resolve, 5));
        steps.push('read');
        return shape;
      });
      expect([answer, steps]).toEqual(['believed', ['read', 'asked', 'read', 'asked']]);
    }
    expect(asked.certain).toBe(0);
  });

  it('fails only with what fails with the rights that hold', async () => {
    const failing = async (given: Parameters<typeof predicateOf>[0]) => {
      if ((await predicateOf(given)).shape === 'believed') throw new Error('too much');
      return 'read';
    };
    await expect(
      readOptimistically(fixture({ confirm: async () => true }).dependencies, failing),
    ).rejects.toThrow('too much');
    expect(
      await readOptimistically(fixture({ confirm: async () => false }).dependencies, failing),
    ).toBe('read');
    const gone = fixture({ confirm: () => Promise.reject(new Error('no database')) });
    await expect(readOptimistically(gone.dependencies, failing)).rejects.toThrow('no database');
  });

  it('fails once where it cannot be confirmed while it still goes on', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    const gone = fixture({ confirm: () => Promise.reject(new Error('no database')) });
    const reading = readOptimistically(gone.dependencies, async (given) => {
      await predicateOf(given);
      await new Promise((resolve) => setTimeout(resolve, 20));
    });
    await expect(reading).rejects.toThrow('no database');
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });

  it('is an ordinary read where nothing is remembered', async () => {
    const { dependencies, asked } = fixture(undefined);
    expect(
      await readOptimistically(dependencies, async (given) => (await predicateOf(given)).shape),
    ).toBe('sure');
    expect(await readGuarded(dependencies, async (given) => (await predicateOf(given)).shape)).toBe(
      'sure',
    );
    expect(asked.certain).toBe(2);
  });
});

describe('a read whose statement asks itself', () => {
  const guarded = (holds: boolean, confirmed: string[]) =>
    fixture({
      guard: () => String(holds),
      confirm: async () => {
        confirmed.push('asked');
        return holds;
      },
    });

  it.each([true, false])('does not ask beside it (%s)', async (holds) => {
    const confirmed: string[] = [];
    const { dependencies } = guarded(holds, confirmed);
    const answer = await readGuarded(dependencies, async (given) => {
      const { shape, guard } = await predicateOf(given);
      return guard?.(() => '$1') === 'false' ? undefined : shape;
    });
    // Once it did not hold, only whether anything changed about the subject counts.
    expect([answer, confirmed.length]).toEqual(holds ? ['believed', 0] : ['sure', 10]);
  });

  it.each([true, false])(
    'is asked about when the statement left the question out (%s)',
    async (holds) => {
      const confirmed: string[] = [];
      const { dependencies } = guarded(holds, confirmed);
      const answer = await readGuarded(
        dependencies,
        async (given) => (await predicateOf(given)).shape,
      );
      expect([answer, confirmed.length]).toEqual(holds ? ['believed', 1] : ['sure', 10]);
    },
  );
});

describe('a read whose time was over, or that found no turn', () => {
  it.each(['TIMEOUT', 'UNAVAILABLE'] as const)('is not sent again (%s)', async (code) => {
    for (const read of [readOptimistically, readGuarded]) {
      for (const holds of [true, false]) {
        let sent = 0;
        const { dependencies } = fixture({ confirm: async () => holds });
        const failing = async (given: Parameters<typeof predicateOf>[0]): Promise<string> => {
          await predicateOf(given);
          sent += 1;
          throw errors[code]({});
        };
        await expect(read(dependencies, failing)).rejects.toMatchObject({ code });
        expect(sent).toBe(1);
      }
    }
  });
});
