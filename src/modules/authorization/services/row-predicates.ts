/**
 * Predicates for the record engine. What a subject reaches and which definitions
 * are in force is remembered; one statement asks whether that still holds, and
 * travels beside the statement that uses it.
 */
import type { Database } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import { andThen, type MaybePromise } from '../../../kernel/maybe-promise.ts';
import type { RowPredicate } from '../../../kernel/permissions.ts';
import type { Engine, ResourceQuestion, RowQuestion } from '../engine/engine.ts';
import type { DatabaseSnapshot } from '../engine/grant-cache/change-tracker.ts';
import type { Models } from './definitions/models.ts';

export interface RowPredicates {
  /** True now. */
  certain(question: AskedRows): Promise<RowPredicate>;
  /** True if it is confirmed, when that can be asked. Answers at once where all that it rests on is remembered. */
  optimistic(question: AskedRows): MaybePromise<RowPredicate>;
}

interface AskedRows extends RowQuestion {
  /** No rows, in place of an error, for an action that the type does not know. */
  readonly orNone?: boolean | undefined;
}

/** Fits no row. */
export const noRows: RowPredicate = { shape: 'none', compile: () => 'false' };

interface RowPredicateParts {
  readonly database: Database;
  readonly models: Models;
}

export function createRowPredicates({ database, models }: RowPredicateParts): RowPredicates {
  /** From the database alone. */
  const fresh = async (question: AskedRows): Promise<RowPredicate> =>
    askCurrent(await models.engine(), question);

  /** By the definitions in force: what they do not know is not known. */
  function askCurrent(
    engine: Engine,
    question: AskedRows,
    catchUp?: () => Promise<DatabaseSnapshot>,
  ): MaybePromise<RowPredicate> {
    const isKnown = engine.model.action(question.type, question.action) !== undefined;
    return !isKnown && question.orNone ? noRows : ask(engine, question, catchUp);
  }

  function ask(
    engine: Engine,
    question: RowQuestion,
    catchUp?: () => Promise<DatabaseSnapshot>,
  ): MaybePromise<RowPredicate> {
    if (!engine.model.action(question.type, question.action))
      throw question.action === moveAction ? unmovable(question.type) : unprepared(question);
    return engine.predicate(database, question, catchUp);
  }

  /** By what is remembered. What fails may fail because of that. */
  function cachedRows(engine: Engine, question: AskedRows): MaybePromise<RowPredicate> {
    try {
      const found = ask(engine, question, models.catchUp);
      return found instanceof Promise ? found.catch(() => fresh(question)) : found;
    } catch {
      return fresh(question);
    }
  }

  return {
    optimistic(question) {
      // A transaction sees what it wrote itself, which nobody else may see.
      if (database.inTransaction()) return fresh(question);
      return andThen(models.optimistic(), (engine) => cachedRows(engine, question));
    },
    async certain(question) {
      if (database.inTransaction()) return fresh(question);
      const { engine, moment } = await models.now();
      // What is still kept at this moment, or read after it; from then on, whatever was written since.
      let catchUp = () => Promise.resolve(moment);
      const found = await askCurrent(engine, question, () => catchUp());
      const { confirm, guard: _, recheck, ...predicate } = found;
      if (confirm === undefined) return { ...predicate, recheck };
      if (!(await confirm())) return fresh(question);
      catchUp = models.catchUp;
      const isSame = async () => (await confirm()) && (recheck === undefined || (await recheck()));
      return { ...predicate, recheck: isSame };
    },
  };
}

const unprepared = ({ type, action }: ResourceQuestion) =>
  errors.UNAVAILABLE({
    message: `The resource definition ${type} does not say who may ${action} its records`,
  });

/** The action that says who may give records another owner. Without it, operators only. */
const moveAction = 'move';

const unmovable = (type: string) =>
  errors.FORBIDDEN({
    message: `Records of ${type} are moved by operators only: its resource definition has no action "${moveAction}"`,
  });
