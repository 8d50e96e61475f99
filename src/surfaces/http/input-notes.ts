/** Input that an operation does not know: refused, or left out and told (docs/decisions/241-unknown-input.md). */
import type { CompiledOperation, RawInput } from '../../kernel/operations/compile.ts';
import type { Operation } from '../../kernel/operations/operation.ts';
import type { DecodedInput } from '../../kernel/operations/operation-input.ts';
import type { Refusal } from '../../kernel/operations/unknown-input.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { Exchange } from './exchange.ts';
import type { SurfaceOptionsSource } from './options.ts';

/** On answers: input that was not taken as it came. */
const INPUT_NOTES_HEADER = 'penstock-input-notes';

export interface InputRules {
  readonly options: SurfaceOptionsSource;
  /** Told of calls with input that their operation does not know. */
  readonly onUnknown?: (operation: string) => void;
}

/** The input as its operation declares it. Throws 400, also for what it does not know where that is to be refused. */
export function decodeInput(
  { options, onUnknown }: InputRules,
  { response }: Exchange,
  compiled: CompiledOperation,
  raw: RawInput,
): DecodedInput {
  const input = compiled.decode(raw, refusalOf(compiled.operation, options));
  if (!input.notes) return input;
  const isUnknown = input.notes.some(({ rule }) => rule === 'unknown');
  if (isUnknown) onUnknown?.(compiled.operation.id);
  const told = notesOf(input).join('; ');
  response.setHeader(INPUT_NOTES_HEADER, told.replace(/[^\x20-\x7e]/g, '?'));
  return input;
}

function refusalOf(operation: Operation, options: SurfaceOptionsSource): Refusal {
  const { unknownInput } = operation;
  if (unknownInput) return unknownInput === 'refuse' ? 'all' : 'none';
  return isCalledByOthers(operation) ? 'none' : (options.current().refuses ?? 'none');
}

/** Old clients, the addresses in mails and at providers, and probes add what they like to a call. */
const isCalledByOthers = ({ legacy, path, limit }: Operation): boolean =>
  legacy === true || limit === 'none' || path === '/' || path.startsWith('/hook/');

const notesOf = ({ notes = [] }: DecodedInput): readonly string[] =>
  notes.map(({ path, message }) => `${path}: ${message}`);

/** The answer with `warnings` beside its members, where the operation puts them there. */
export function withWarnings(
  { unknownInput }: Operation,
  input: DecodedInput,
  answer: Answer,
): Answer {
  const { body, json } = answer;
  if (unknownInput !== 'warn' || !input.notes || !json || !body.endsWith('}')) return answer;
  const between = body === '{}' ? '' : ',';
  const warnings = JSON.stringify(notesOf(input));
  return { ...answer, body: `${body.slice(0, -1)}${between}"warnings":${warnings}}` };
}
