/** Checks that the statement of the record decides (engine/record-probe.ts), where such statements decide most of a kind. */
import type { Database } from '../../../kernel/database/database.ts';
import { andThen, type MaybePromise } from '../../../kernel/maybe-promise.ts';
import type { RecordCheck } from '../../../kernel/record-check.ts';
import type { Engine, Question } from '../engine/engine.ts';
import type { Models } from './definitions/models.ts';
import type { ProbeOrder } from './probe-order.ts';

/** `undefined` where looking at little will hardly decide the question. */
export type RecordChecks = (question: Question) => MaybePromise<RecordCheck | undefined>;

interface Dependencies {
  readonly database: Database;
  readonly models: Models;
  /** That of checks without a record: what their kinds need is the same. */
  readonly order: ProbeOrder;
}

export function createRecordChecks({ database, models, order }: Dependencies): RecordChecks {
  function checkBy(engine: Engine, question: Question): MaybePromise<RecordCheck | undefined> {
    const [reach] = order.of(question);
    if (reach !== 'near' && reach !== 'held') return undefined;
    return andThen(engine.recordProbe(database, question, reach), (probe) => {
      if (!probe) return undefined;
      const { kind, values, probeOf } = probe;
      return {
        kind,
        values,
        decide(found) {
          const looked = probeOf(found);
          // From other definitions than those by which the question was put nothing follows.
          if (looked.revision !== engine.model.revision) return undefined;
          order.note(question, { [reach]: looked });
          return looked.allowed;
        },
      };
    });
  }

  return (question) => {
    // What a transaction sees of definitions and tuples, nobody else may know.
    if (database.inTransaction()) return undefined;
    return andThen(models.optimistic(), (engine) => checkBy(engine, question));
  };
}
