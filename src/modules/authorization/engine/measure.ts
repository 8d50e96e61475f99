/** Counts and times what engines answer. */
import { endedBy } from '../../../kernel/maybe-promise.ts';
import type { Metrics } from '../../../kernel/telemetry/metrics.ts';
import type { Engine } from './engine.ts';

function createFigures(metrics: Metrics) {
  const answers = metrics.counter('authorization_answers_total', 'Answers to permission checks', [
    'answer',
  ]);
  const duration = metrics.histogram(
    'authorization_question_duration_seconds',
    'Time of permission questions by kind',
    ['kind'],
  );
  const timers = new Map(
    ['check', 'explain', 'list', 'who', 'rows'].map((kind) => [kind, duration.bind({ kind })]),
  );

  const ended = (kind: string, begin: number): void =>
    timers.get(kind)?.((performance.now() - begin) / 1000);
  const count = (answer: boolean | 'error' | undefined): void =>
    answers.inc({ answer: answer === 'error' ? answer : answer ? 'allowed' : 'denied' });
  return {
    ended,
    count,
    async timed<T>(kind: string, work: Promise<T>): Promise<T> {
      const begin = performance.now();
      try {
        return await work;
      } finally {
        ended(kind, begin);
      }
    },
    /** What a probe does not decide is counted as the check that follows. */
    countProbed(begin: number, decided: readonly (boolean | undefined)[]): void {
      ended('check', begin);
      decided.forEach(count);
    },
  };
}

/** Puts measuring around engines. Makes its metrics once: call it once per process. */
export function createMeasure(metrics: Metrics): (engine: Engine) => Engine {
  const { timed, ended, count, countProbed } = createFigures(metrics);
  return (engine) => ({
    ...engine,
    async check(...question) {
      const found = await timed('check', engine.check(...question)).catch((error: unknown) => {
        count('error');
        throw error;
      });
      found.forEach(count);
      return found;
    },
    async answers(...question) {
      const found = await timed('check', engine.answers(...question));
      for (const { allowed, undecided } of found) count(undecided ? 'error' : allowed);
      return found;
    },
    probe(...question) {
      const begin = performance.now();
      return engine.probe(...question).then((found) => {
        if (found?.allowed !== undefined) countProbed(begin, [found.allowed]);
        return found;
      });
    },
    async probeAll(...question) {
      const begin = performance.now();
      const found = await engine.probeAll(...question);
      const decided = found?.map(({ allowed }) => allowed);
      // One that is left undecided has all of them asked once more.
      if (decided && !decided.includes(undefined)) countProbed(begin, decided);
      return found;
    },
    explain: (...question) => timed('explain', engine.explain(...question)),
    listResources: (...question) => timed('list', engine.listResources(...question)),
    listSubjects: (...question) => timed('who', engine.listSubjects(...question)),
    predicate(...question) {
      const begin = performance.now();
      return endedBy(
        () => engine.predicate(...question),
        () => ended('rows', begin),
      );
    },
  });
}
