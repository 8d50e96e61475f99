/** Counts and times what the engine answers. */
import type { Metrics } from '../../../kernel/telemetry/metrics.ts';
import type { Engine } from '../engine/engine.ts';

/** Puts measuring around engines. Makes its metrics once: call it once per process. */
export function createMeasure(metrics: Metrics): (engine: Engine) => Engine {
  const answers = metrics.counter('authorization_answers_total', 'Answers to permission checks', ['answer']);
  const duration = metrics.histogram('authorization_question_duration_seconds', 'Time of permission questions by kind', ['kind']);
  const timers = new Map(['check', 'explain', 'list', 'who', 'rows'].map((kind) => [kind, duration.bind({ kind })]));

  const timed = async <T>(kind: string, work: Promise<T>): Promise<T> => {
    const begin = performance.now();
    try {
      return await work;
    } finally {
      timers.get(kind)?.((performance.now() - begin) / 1000);
    }
  };

  return (engine) => ({
    ...engine,
    async check(...question) {
      const found = await timed('check', engine.check(...question)).catch((error: unknown) => {
        answers.inc({ answer: 'error' });
        throw error;
      });
      for (const allowed of found) answers.inc({ answer: allowed ? 'allowed' : 'denied' });
      return found;
    },
    async probe(...question) {
      const begin = performance.now();
      const found = await engine.probe(...question);
      // What it does not decide is counted as the check that follows.
      if (found?.allowed === undefined) return found;
      timers.get('check')?.((performance.now() - begin) / 1000);
      answers.inc({ answer: found.allowed ? 'allowed' : 'denied' });
      return found;
    },
    explain: (...question) => timed('explain', engine.explain(...question)),
    listResources: (...question) => timed('list', engine.listResources(...question)),
    listSubjects: (...question) => timed('who', engine.listSubjects(...question)),
    predicate: (...question) => timed('rows', engine.predicate(...question)),
  });
}
