/** Checks by short statements where these decide (engine/probe.ts), else by the engine. */
import type { Database } from '../../../kernel/database/database.ts';
import type { Answer, AskOptions, Engine, Probe, ProbeReach, Question } from '../engine/engine.ts';
import { limits } from '../engine/limits.ts';
import type { Models } from './definitions/models.ts';
import { createProbeOrder, isNeedless, type Looks } from './probe-order.ts';
import { createRecordChecks, type RecordChecks } from './record-checks.ts';

interface ProbedChecks {
  alone(question: Question, options?: AskOptions): Promise<boolean>;
  /** Several, where one statement decides all of them: they rest on the same state. */
  together(
    questions: readonly Question[],
    options?: AskOptions,
  ): Promise<readonly Answer[] | undefined>;
  /** One about a record, decided by the statement that reads it. */
  readonly ofRecord: RecordChecks;
}

interface Dependencies {
  readonly database: Database;
  readonly models: Models;
}

export function createProbedChecks({ database, models }: Dependencies): ProbedChecks {
  const order = createProbeOrder();
  const searched = (question: Question, options?: AskOptions): Promise<boolean> =>
    models.ask(async (engine) => (await engine.check(database, [question], options))[0] === true);

  /** The first statement decides most checks: nothing else on their way is paused and resumed. */
  async function probed(
    engine: Engine,
    question: Question,
    options?: AskOptions,
  ): Promise<boolean> {
    const looks: Looks = {};
    let allowed: boolean | undefined;
    for (const reach of order.of(question)) {
      if (isNeedless(reach, looks)) continue;
      const found = await engine.probe(database, question, options, reach);
      // The statement has told which definitions are in force: nobody needs to ask beside it.
      if (found && found.revision !== engine.model.revision) return searched(question, options);
      looks[reach] = found;
      allowed = found?.allowed;
      if (allowed !== undefined) break;
    }
    order.note(question, looks);
    return allowed ?? searched(question, options);
  }

  /** Those statements alone that look at little of each object. */
  async function probedTogether(
    engine: Engine,
    questions: readonly Question[],
    options: AskOptions | undefined,
  ): Promise<readonly Answer[] | undefined> {
    for (const reach of reachesOf(questions)) {
      const found = await engine.probeAll(database, questions, options, reach);
      if (!found) continue;
      if (!isOf(engine, found)) return undefined;
      noteAll(questions, found, reach);
      const answers = found.flatMap(decided);
      if (answers.length === questions.length) return answers;
      if (!isWorthMore(reach, found)) return undefined;
    }
    return undefined;
  }

  const noteAll = (questions: readonly Question[], found: readonly Probe[], reach: ProbeReach) =>
    questions.forEach((question, i) => void order.note(question, { [reach]: found[i] }));

  const reachesOf = ([first]: readonly Question[]) =>
    first ? order.of(first).filter((reach) => reach === 'near' || reach === 'held') : [];

  return {
    alone(question, options) {
      // What a transaction sees of definitions, nobody else may know.
      if (database.inTransaction()) return searched(question, options);
      const engine = models.optimistic();
      if (!(engine instanceof Promise)) return probed(engine, question, options);
      return engine.then((loaded) => probed(loaded, question, options));
    },
    ofRecord: createRecordChecks({ database, models, order }),
    async together(questions, options) {
      if (questions.length > limits.batch || database.inTransaction()) return undefined;
      return probedTogether(await models.optimistic(), questions, options);
    },
  };
}

/** Whether the definitions were those of the engine. */
const isOf = ({ model }: Engine, found: readonly Probe[]): boolean =>
  found.every(({ revision }) => revision === model.revision);

/** `held` looks at the same objects: what stands about one of them may be more than either takes. */
const isWorthMore = (reach: ProbeReach, found: readonly Probe[]): boolean =>
  reach === 'near' && found.every(({ whole }) => whole);

const decided = ({ allowed }: Probe): readonly Answer[] =>
  allowed === undefined ? [] : [{ allowed }];
