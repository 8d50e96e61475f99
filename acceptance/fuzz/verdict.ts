import type { DescribedOperation } from './operations.ts';
import type { FuzzAnswer } from './request.ts';

/** Things that no answer may hold: stack traces, SQL, words of the database server. */
const leaks: readonly RegExp[] = [
  /(?:\n|\\n)\s+at .+:\d+:\d+/,
  /node_modules/,
  /\bsrc\/\w+\/[\w/.-]+\.ts\b/,
  /\b(SELECT|DELETE)\b.+\bFROM\b/,
  /\bINSERT INTO\b/,
  /syntax error at or near/,
  /duplicate key value/,
  /violates [\w-]+ constraint/,
  /invalid (input|byte sequence) (syntax|for)/,
  /out of range for type/,
];

/** What is wrong with an answer; empty when it is as the operation declares. */
export function problemsOf(
  operation: DescribedOperation,
  answer: FuzzAnswer,
  secrets: readonly string[],
): string[] {
  const { status, text } = answer;
  const problems: string[] = [];
  if (
    status >= 500 &&
    !isReport(operation, answer) &&
    !asksOthers(operation, answer) &&
    !lacksTemplates(operation, answer) &&
    !hasNoWayLeft(operation, answer)
  )
    problems.push(`answers ${status}`);
  if (!operation.answers.has(status)) problems.push(`status ${status} is not declared`);
  for (const leak of leaks) if (leak.test(text)) problems.push(`holds ${leak}`);
  if (secrets.some((secret) => text.includes(secret))) problems.push('holds a secret');
  problems.push(
    ...(status >= 400 ? errorProblems(operation, answer) : successProblems(operation, answer)),
  );
  return problems;
}

/** `/ready` answers its report, or its legacy line, with 503 too; every other operation has what it needs here. */
const isReport = ({ path }: DescribedOperation, { status }: FuzzAnswer): boolean =>
  status === 503 && path === '/ready';

/** Providers that keep no templates are told by 501 (specification communications.md 2.1). */
const lacksTemplates = ({ path }: DescribedOperation, { status }: FuzzAnswer): boolean =>
  status === 501 && /\/email\/.*(templates|sync)/i.test(path);

/** A chain whose every channel failed is told by 500 (specification communications.md 2.1). */
const hasNoWayLeft = ({ path }: DescribedOperation, { status, text }: FuzzAnswer): boolean =>
  status === 500 && path === '/send/fallback' && text.includes('"CHANNELS_FAILED"');

/** Providers of sign-in cannot be reached from a test: to say so is right. */
const asksOthers = ({ path }: DescribedOperation, { status }: FuzzAnswer): boolean =>
  status === 503 && /^\/authentication\/(facebook|google|init|native|identities)\b/.test(path);

function errorProblems(operation: DescribedOperation, answer: FuzzAnswer): string[] {
  if (isReport(operation, answer)) return [];
  const { status, text, contentType } = answer;
  const body = parsed(text);
  if (operation.path === '/graphql') return graphqlErrorProblems(body);
  if (operation.path.startsWith('/openid/') && isOpenidError(answer, body)) return [];
  if (operation.path === '/mcp' && Object(body).jsonrpc !== undefined)
    return rpcErrorProblems(body);
  if (!contentType.startsWith('application/json') || typeof body !== 'object' || body === null)
    return [`error ${status} is not JSON`];
  const { name, status: inBody, message, code, requestId } = body as Record<string, unknown>;
  const fits =
    [name, message, code, requestId].every((value) => typeof value === 'string' && value !== '') &&
    inBody === status;
  return fits ? [] : ['the error body lacks name, status, message, code or requestId'];
}

/** OAuth has a form of its own (RFC 6749 5.2); browsers get it as a page. */
const isOpenidError = ({ contentType }: FuzzAnswer, body: unknown): boolean =>
  contentType.startsWith('text/html') || typeof Object(body).error_description === 'string';

/** GraphQL over HTTP has a form of its own: each error with its code. */
function graphqlErrorProblems(body: unknown): string[] {
  const { errors, ...others } = Object(body);
  const fits =
    Array.isArray(errors) &&
    errors.length > 0 &&
    errors.every(({ message, extensions }) => message && extensions?.code && extensions.requestId);
  return fits && Object.keys(others).length === 0
    ? []
    : ['the GraphQL error lacks a message, a code or the request id'];
}

/** JSON-RPC 2.0, section 5.1. */
function rpcErrorProblems(body: unknown): string[] {
  const { jsonrpc, error } = Object(body);
  return jsonrpc === '2.0' && Number.isInteger(error?.code) && error?.message
    ? []
    : ['the JSON-RPC error lacks a code or a message'];
}

function successProblems(
  operation: DescribedOperation,
  { status, text, contentType }: FuzzAnswer,
): string[] {
  if (status >= 300) return [];
  const type = contentType.split(';', 1)[0] ?? '';
  if (type !== 'application/json')
    return operation.answers.get(status)?.includes(type)
      ? []
      : [`content type ${type} is not declared`];
  const body = parsed(text);
  return body === undefined
    ? ['the body is not JSON']
    : [...operation.check(status, body)].map((problem) => `answer ${problem}`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
