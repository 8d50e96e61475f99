/**
 * Rules over values as definitions hold them: `{"params": {"expiresAt": "timestamp"}, "rule": "now < expiresAt"}`.
 * A parameter has its value from the tuple, else from the request.
 */
import { type EnvironmentParts, ruleEnvironment } from '../../../data/rules/environment.ts';
import {
  type CompiledRule,
  compileRule,
  type Inputs,
  ruleProblem,
} from '../../../data/rules/rule.ts';
import { parseRule, RuleError } from '../../../data/rules/syntax.ts';
import { type RuleType, readType, typeNames } from '../../../data/rules/types.ts';
import { type RuleValue, readValue, ValueError } from '../../../data/rules/values.ts';
import { invalid, type Problem } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';

export interface TypedRule {
  readonly kind: 'rule';
  readonly rule: CompiledRule;
  readonly parameters: ReadonlyMap<string, RuleType>;
}

/** Values that a rule may look at. */
export interface RuleContext {
  /** Of the request. */
  readonly context: Readonly<Record<string, unknown>>;
  /** Of the tuple. */
  readonly attributes: Readonly<Record<string, unknown>>;
  /** ISO 8601. */
  readonly now: string;
}

const MAX_PARAMETERS = 32;
const parameterName = /^[A-Za-z_]\w{0,63}$/;

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** True for what is written as a rule, whatever is wrong with it. */
export const isTypedRule = (input: unknown): input is Record<string, unknown> =>
  isPlain(input) && Object.hasOwn(input, 'rule');

/** Parses the wire form; problems carry dotted places below `path`, and the line and column within the rule. */
export function parseTypedRule(
  input: Readonly<Record<string, unknown>>,
  path: string,
  problems: Problem[],
  environment: Omit<EnvironmentParts, 'parameters'> = { caller: false },
): TypedRule | undefined {
  const before = problems.length;
  const { rule, params = {}, ...others } = input;
  for (const name of Object.keys(others))
    report(problems, `${path}.${cutText(name, 64)}`, 'name', 'a rule has only "rule" and "params"');
  const parameters = parametersOf(params, `${path}.params`, problems);
  if (typeof rule !== 'string')
    report(problems, `${path}.rule`, 'type', 'must be the text of a rule');
  if (problems.length > before || typeof rule !== 'string') return undefined;
  try {
    const compiled = compileRule(rule, ruleEnvironment({ ...environment, parameters }));
    return { kind: 'rule', rule: compiled, parameters };
  } catch (error) {
    if (!(error instanceof RuleError)) throw error;
    problems.push(ruleProblem(rule, error, `${path}.rule`));
    return undefined;
  }
}

/** The same about records: its words are held against the schema when the definition is stored. */
export function parseRecordRule(
  input: Readonly<Record<string, unknown>>,
  path: string,
  problems: Problem[],
): { readonly text: string; readonly parameters: ReadonlyMap<string, RuleType> } | undefined {
  const before = problems.length;
  const { rule, params = {}, ...others } = input;
  for (const name of Object.keys(others))
    report(problems, `${path}.${cutText(name, 64)}`, 'name', 'a rule has only "rule" and "params"');
  const parameters = parametersOf(params, `${path}.params`, problems);
  if (typeof rule !== 'string')
    return report(problems, `${path}.rule`, 'type', 'must be the text of a rule');
  try {
    parseRule(rule);
  } catch (error) {
    if (!(error instanceof RuleError)) throw error;
    problems.push(ruleProblem(rule, error, `${path}.rule`));
  }
  return problems.length > before ? undefined : { text: rule, parameters };
}

const report = (problems: Problem[], path: string, rule: string, message: string): undefined => {
  problems.push({ path, rule, message });
};

function parametersOf(
  params: unknown,
  path: string,
  problems: Problem[],
): ReadonlyMap<string, RuleType> {
  const found = new Map<string, RuleType>();
  const entries = isPlain(params) ? Object.entries(params) : [];
  if (!isPlain(params) || entries.length > MAX_PARAMETERS)
    report(
      problems,
      path,
      'type',
      `must be an object of at most ${MAX_PARAMETERS} names with types`,
    );
  for (const [name, written] of entries.slice(0, MAX_PARAMETERS)) {
    const type = typeof written === 'string' ? readType(written) : undefined;
    const place = `${path}.${cutText(name, 64)}`;
    if (!parameterName.test(name))
      report(problems, place, 'name', 'must be letters, digits and underscores');
    else if (!type) report(problems, place, 'type', `must be one of ${typeNames}`);
    else found.set(name, type);
  }
  return found;
}

/**
 * The values of a rule. A value of the request of another type is 400; one that stands in a tuple, which was written
 * when another type was declared, is no value.
 */
export const inputsOf =
  (
    { parameters }: Pick<TypedRule, 'parameters'>,
    { context, attributes, now }: RuleContext,
  ): Inputs =>
  (name) => {
    const type = parameters.get(name);
    if (!type) return name === 'now' ? momentOf(now) : undefined;
    if (Object.hasOwn(attributes, name)) return storedInput(type, attributes[name], name);
    if (!Object.hasOwn(context, name)) return undefined;
    return { value: contextValue(type, context[name], name) };
  };

const momentOf = (now: string) => ({ value: readValue({ kind: 'timestamp' }, now, 'now') });

function storedInput(type: RuleType, value: unknown, name: string) {
  try {
    return { value: readValue(type, value, name) };
  } catch (error) {
    if (error instanceof ValueError) return 'error' as const;
    throw error;
  }
}

function contextValue(type: RuleType, value: unknown, name: string): RuleValue {
  try {
    return readValue(type, value, `context.${name}`);
  } catch (error) {
    if (error instanceof ValueError) throw invalid(error.path, 'type', error.message);
    throw error;
  }
}

/** What is wrong with values that a tuple gives to the rule of its condition; nothing when they fit. */
export function attributeProblem(
  { parameters }: TypedRule,
  attributes: Readonly<Record<string, unknown>>,
): Problem | undefined {
  for (const [name, value] of Object.entries(attributes)) {
    const type = parameters.get(name);
    const path = `attributes.${cutText(name, 64)}`;
    if (!type) return { path, rule: 'name', message: 'is no parameter of the condition' };
    try {
      readValue(type, value, path);
    } catch (error) {
      if (error instanceof ValueError)
        return { path: error.path, rule: 'type', message: error.message };
      throw error;
    }
  }
  return undefined;
}
