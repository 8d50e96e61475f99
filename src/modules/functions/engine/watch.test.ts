/** What is on the thread of the process for too long is ended, whatever it does, and nothing else is. */
import ivm from 'isolated-vm';
import { expect, it } from 'vitest';
import { watch } from './sandbox/watch.ts';

/** Runs code on this thread; whether it was over in time. */
function runHere(code: string): { readonly inTime: boolean; readonly isEnded: boolean } {
  const isolate = new ivm.Isolate({ memoryLimit: 16 });
  const context = isolate.createContextSync();
  const script = isolate.compileScriptSync(code);
  const slot = watch().add(isolate);
  watch().enter(slot);
  try {
    script.runSync(context);
  } catch {
    // It was ended.
  }
  const inTime = watch().leave();
  const isEnded = isolate.isDisposed;
  watch().forget(slot);
  if (!isEnded) isolate.dispose();
  return { inTime, isEnded };
}

it.each([
  'for (;;);',
  'for (;;) { try { for (;;); } catch {} finally { for (;;); } }',
  'const go = () => Promise.resolve().then(go); go(); go();',
  '(async () => { for (;;) await null; })();',
  "/^(a+)+$/.test('a'.repeat(60) + 'b');",
  'const f = () => { try { f(); } catch { f(); } }; f();',
])('ends what goes on: %s', (code) => {
  expect(runHere(code)).toEqual({ inTime: false, isEnded: true });
});

it('is there again after it has slept, and after it has ended something', async () => {
  for (const pause of [0, 100, 0]) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    expect(runHere('1')).toEqual({ inTime: true, isEnded: false });
    expect(runHere('for (;;);')).toEqual({ inTime: false, isEnded: true });
  }
});

it('ends the one that runs, of many', () => {
  const ends = Array.from({ length: 30 }, (_, at) => runHere(at % 10 === 7 ? 'for (;;);' : '1'));
  expect(ends.map(({ isEnded }) => isEnded)).toEqual(ends.map((_, at) => at % 10 === 7));
});
