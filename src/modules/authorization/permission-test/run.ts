/** Asks what a permission test file asserts, of the engine itself, over tuples in memory. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { PenstockError, type Problem } from '../../../kernel/errors.ts';
import { createEngine } from '../engine/create-engine.ts';
import type { Engine, Question, Reason } from '../engine/engine.ts';
import { untoldRule } from '../engine/record-rules.ts';
import { formatObject, formatSubject, parseObject, parseSubject } from '../model/grammar.ts';
import type { TimedTuple } from '../queries.ts';
import type { TupleRow } from '../tuple-sql.ts';
import { type PermissionTest, type PermissionTestFile, tupleOfWords } from './file.ts';

/** An assertion that does not hold. */
export interface Failure {
  readonly test: string;
  /** The assertion, in words. */
  readonly about: string;
  readonly message: string;
  /** Why the engine answers as it does. */
  readonly reason?: Reason;
}

export interface PermissionTestResult {
  readonly assertions: number;
  readonly failures: readonly Failure[];
}

export async function runPermissionTests(file: PermissionTestFile): Promise<PermissionTestResult> {
  let assertions = 0;
  const failures: Failure[] = [];
  for (const { test, tuples } of file.tests) {
    const rules = new Map(Object.entries(test.rules ?? {}));
    const engine = createEngine(file.model, undefined, undefined, ({ text }) => rules.get(text));
    const asked = assertionsOf(testModelOf(engine, [...file.tuples, ...tuples], test), test);
    assertions += asked.length;
    for (const { about, ask } of asked) {
      const failure = await ask().catch(asFailure);
      if (failure) failures.push({ test: test.name, about, ...failure });
    }
  }
  return { assertions, failures };
}

type Verdict = Pick<Failure, 'message' | 'reason'> | undefined;

/** A question that makes no sense, or that has no answer, is a failed assertion. */
function asFailure(error: unknown): Verdict {
  if (!(error instanceof PenstockError)) throw error;
  const untold = (error.errors ?? []).find(({ path }) => path.startsWith(untoldPath));
  const rule = untold?.path.slice(untoldPath.length);
  return {
    message:
      rule === undefined
        ? error.message
        : `hangs on a rule about the record: say what it says in this test, as rules: { ${JSON.stringify(rule)}: true }`,
  };
}

const untoldPath = `context.${untoldRule}`;

interface TestModel {
  readonly tuples: readonly TimedTuple[];
  can(question: Question): Promise<boolean>;
  explain(question: Question): Promise<Reason>;
}

/** The engine over tuples in memory: its one statement that loads tuples is answered with all of them. */
function testModelOf(
  engine: Engine,
  tuples: readonly TimedTuple[],
  { context = {} }: PermissionTest,
): TestModel {
  const rows = tuples.map(rowOf);
  const memory = { query: async () => ({ rows, count: rows.length }) } as unknown as Queryable;
  return {
    tuples,
    can: async (question) => (await engine.check(memory, [question], { context }))[0] === true,
    explain: (question) => engine.explain(memory, question, { context }),
  };
}

const rowOf = ({
  subject,
  relation,
  resource,
  condition,
  attributes,
  expiresAt,
}: TimedTuple): TupleRow => ({
  subject_type: subject.type,
  subject_id: subject.id,
  subject_relation: subject.relation,
  relation,
  resource_type: resource.type,
  resource_id: resource.id,
  condition: condition ?? null,
  attributes: attributes ?? null,
  expired: expiresAt !== undefined && Date.parse(expiresAt) <= Date.now(),
});

interface Assertion {
  readonly about: string;
  ask(): Promise<Verdict>;
}

const assertionsOf = (
  testModel: TestModel,
  { allowed = [], denied = [], list = {}, who = {} }: PermissionTest,
): readonly Assertion[] => [
  ...allowed.map((text) => ({
    about: `allowed: ${text}`,
    ask: () => askCheck(testModel, text, true),
  })),
  ...denied.map((text) => ({
    about: `denied: ${text}`,
    ask: () => askCheck(testModel, text, false),
  })),
  ...Object.entries(list).map(([text, right]) => ({
    about: `list: ${text}`,
    ask: () => askList(testModel, text, right),
  })),
  ...Object.entries(who).map(([text, right]) => ({
    about: `who: ${text}`,
    ask: () => askWho(testModel, text, right),
  })),
];

function questionOf(text: string): Question {
  const { subject, relation, resource } = tupleOfWords(text);
  return {
    subject: parseSubject(subject, 'subject'),
    action: relation,
    resource: parseObject(resource, 'resource'),
  };
}

async function askCheck(testModel: TestModel, text: string, expected: boolean): Promise<Verdict> {
  const question = questionOf(text);
  if ((await testModel.can(question)) === expected) return undefined;
  return {
    message: expected ? 'is denied' : 'is allowed',
    reason: await testModel.explain(question),
  };
}

const uniqueOf = (texts: readonly string[]): readonly string[] => [...new Set(texts)];

/** An object that no tuple names. */
const somebody = 'somebody-else';

async function askList(
  testModel: TestModel,
  text: string,
  right: readonly string[],
): Promise<Verdict> {
  const { subject, relation: action, resource: type } = tupleOfWords(text);
  // Asked for its words only: an empty list of what does not exist must not hold.
  await testModel.can({
    subject: parseSubject(subject, 'subject'),
    action,
    resource: parseObject(`${type}:${somebody}`, 'resource'),
  });
  const known = testModel.tuples
    .flatMap((tuple) => [tuple.resource, tuple.subject])
    .filter((object) => object.type === type && object.id !== '*');
  const candidates = uniqueOf([...known.map(formatObject), ...right]);
  const questions = candidates.map((candidate) => ({
    candidate,
    question: {
      subject: parseSubject(subject, 'subject'),
      action,
      resource: parseObject(candidate, 'resource'),
    },
  }));
  return compare(testModel, questions, right);
}

/** May somebody whom no tuple names, then everybody may who is not named. */
async function askWho(
  testModel: TestModel,
  text: string,
  right: readonly string[],
): Promise<Verdict> {
  const [action = '', resource = ''] = text.trim().split(/\s+/);
  const named = testModel.tuples
    .map(({ subject }) => subject)
    .filter(({ type, id, relation }) => type === 'User' && id !== '*' && relation === '');
  const candidates = uniqueOf([...named.map(formatSubject), ...right, 'User:*']);
  const object = parseObject(resource, 'resource');
  const questions = candidates.map((candidate) => {
    const subject = parseSubject(
      candidate === 'User:*' ? `User:${somebody}` : candidate,
      'subject',
    );
    return { candidate, question: { subject, action, resource: object } };
  });
  return compare(testModel, questions, right);
}

interface Candidate {
  readonly candidate: string;
  readonly question: Question;
}

async function compare(
  testModel: TestModel,
  candidates: readonly Candidate[],
  right: readonly string[],
): Promise<Verdict> {
  const missing: Candidate[] = [];
  const surplus: Candidate[] = [];
  for (const one of candidates) {
    const allowed = await testModel.can(one.question);
    if (allowed === right.includes(one.candidate)) continue;
    (allowed ? surplus : missing).push(one);
  }
  const [first] = [...surplus, ...missing];
  if (!first) return undefined;
  const words = [
    ...missing.map(({ candidate }) => `${candidate} is missing`),
    ...surplus.map(({ candidate }) => `${candidate} is too much`),
  ];
  return { message: words.join(', '), reason: await testModel.explain(first.question) };
}

/* The outcome of permission tests, for people. */

/** Lines of one explanation that are shown. */
const maxLines = 40;

export const problemLines = (problems: readonly Problem[]): readonly string[] =>
  problems.map(({ path, message }) => `  ${path}: ${message}`);

export const resultLines = ({ assertions, failures }: PermissionTestResult): readonly string[] => [
  ...failures.flatMap(failureLines),
  `  ${assertions - failures.length} of ${assertions} assertions hold`,
];

function failureLines({ test, about, message, reason }: Failure): readonly string[] {
  const why = reason ? reasonLines(reason, '      ') : [];
  const lines = why.length > maxLines ? [...why.slice(0, maxLines), '      ...'] : why;
  return [`  FAILED ${test}`, `    ${about}: ${message}`, ...lines];
}

/** A tree of reasons, indented. */
function reasonLines(
  { allowed, about, because, tuple, parts }: Reason,
  indent: string,
): readonly string[] {
  const line = `${indent}${allowed ? 'yes' : 'no '} ${about}: ${because}${tuple === undefined ? '' : ` (${tuple})`}`;
  return [line, ...parts.flatMap((part) => reasonLines(part, `${indent}  `))];
}
