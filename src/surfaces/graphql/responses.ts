/** Errors of a GraphQL answer: what went wrong in an operation, and what is wrong with a document. */
import { GraphQLError, type GraphQLFormattedError } from 'graphql';
import { errors, PenstockError } from '../../kernel/errors.ts';
import { shortened, storable } from '../../kernel/text.ts';

/** Codes of what is wrong with a document, as GraphQL servers commonly name them. */
type DocumentCode =
  | 'GRAPHQL_PARSE_FAILED'
  | 'GRAPHQL_VALIDATION_FAILED'
  | 'GRAPHQL_LIMIT_EXCEEDED'
  | 'OPERATION_RESOLUTION_FAILURE'
  | 'PERSISTED_QUERY_NOT_SUPPORTED'
  | 'BAD_USER_INPUT';

/** A request that is refused as a whole: nothing of it ran. */
export class RefusedDocument extends Error {
  readonly code: DocumentCode;
  readonly errors: readonly GraphQLError[];

  constructor(code: DocumentCode, found: readonly GraphQLError[]) {
    super(found[0]?.message ?? code);
    this.code = code;
    this.errors = found;
  }
}

/** Refuses a document for its size. */
export const tooMuch = (message: string): RefusedDocument =>
  new RefusedDocument('GRAPHQL_LIMIT_EXCEEDED', [new GraphQLError(message)]);

export interface ErrorContext {
  readonly requestId: string;
  /** Whether messages may suggest names of the schema. */
  readonly suggestions: boolean;
  /** Told about what is our own error. */
  onError(error: unknown): void;
}

type ErrorBody = GraphQLFormattedError;

/** Something that is wrong with the document as a whole. */
export function documentErrors(
  refused: RefusedDocument,
  context: ErrorContext,
): readonly ErrorBody[] {
  return refused.errors.slice(0, MAX_ERRORS).map((error) => ({
    message: messageOf(error.message, context),
    ...placeOf(error),
    extensions: { code: refused.code, status: 400, requestId: context.requestId },
  }));
}

/** Errors in an answer; nobody reads more of them. */
const MAX_ERRORS = 50;

/** A request that was refused before it was understood (429, 413, malformed JSON). */
export const requestError = (error: PenstockError, context: ErrorContext): ErrorBody => ({
  message: error.message,
  extensions: extensionsOf(error, context),
});

/** An error of a field: of its operation, or of bringing the answer into the form of its type. */
export function fieldError(error: GraphQLError, context: ErrorContext): ErrorBody {
  const known = error.originalError instanceof PenstockError ? error.originalError : undefined;
  if (!known) context.onError(error.originalError ?? error);
  const visible = known ?? errors.INTERNAL_SERVER_ERROR();
  return {
    message: visible.message,
    ...placeOf(error),
    ...(error.path ? { path: error.path } : {}),
    extensions: extensionsOf(visible, context),
  };
}

/** `code` is the HTTP status, as clients of this interface expect; the stable name is `conduitCode`. */
function extensionsOf(error: PenstockError, { requestId }: ErrorContext): Record<string, unknown> {
  return {
    code: error.status,
    conduitCode: error.code,
    name: error.name,
    status: error.status,
    requestId,
    ...(error.errors ? { errors: error.errors } : {}),
    ...(error.retryAfter === undefined
      ? {}
      : { retryAfter: Math.max(1, Math.ceil(error.retryAfter)) }),
  };
}

const placeOf = ({ locations }: GraphQLError): Pick<ErrorBody, 'locations'> =>
  locations?.length ? { locations } : {};

/** Characters of a message: it may quote what was sent. */
const MAX_MESSAGE = 500;

function messageOf(message: string, { suggestions }: ErrorContext): string {
  // Cut first: what is searched must not be as long as somebody wants it to be.
  const short = storable(shortened(message, MAX_MESSAGE));
  return suggestions ? short : short.replace(/ ?Did you mean .*$/s, '');
}

/* Which form of answer a client takes (GraphQL over HTTP, "Media Types"). */

export interface AnswerForm {
  readonly contentType: string;
  /** The status of an answer without data: its request was read but not run. */
  readonly refusedStatus: 200 | 400;
}

const charset = '; charset=utf-8';
const graphqlJson: AnswerForm = {
  contentType: `application/graphql-response+json${charset}`,
  refusedStatus: 400,
};
/** Clients that take whatever comes read the status. */
const anyJson: AnswerForm = { contentType: `application/json${charset}`, refusedStatus: 400 };
/** Clients that ask for this type alone read the body, and take another status for a problem of something in between. */
const plainJson: AnswerForm = { contentType: `application/json${charset}`, refusedStatus: 200 };

/** Characters of the header that are looked at. */
const MAX_ACCEPT = 1_000;

/** Clients have a handful of spellings of the header. */
const forms = new Map<string, AnswerForm>();
const MAX_FORMS = 100;

export function answerForm(accept = ''): AnswerForm {
  const known = forms.get(accept);
  if (known) return known;
  const form = readForm(accept);
  if (forms.size < MAX_FORMS && accept.length <= MAX_ACCEPT) forms.set(accept, form);
  return form;
}

function readForm(accept: string): AnswerForm {
  const types = acceptedTypes(accept);
  const preferred = types.find(
    (type) => type === 'application/graphql-response+json' || type === 'application/json',
  );
  if (preferred === 'application/graphql-response+json') return graphqlJson;
  return preferred && !types.some((type) => type.endsWith('*')) ? plainJson : anyJson;
}

/** Whether a browser asks for a page. */
export const acceptsPage = (accept: string | undefined): boolean =>
  acceptedTypes(accept).includes('text/html');

/** The types of the header, the preferred first. */
function acceptedTypes(accept = ''): readonly string[] {
  return accept
    .slice(0, MAX_ACCEPT)
    .split(',')
    .map((part) => {
      const [type = '', ...parameters] = part.split(';').map((item) => item.trim().toLowerCase());
      const quality = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
      return { type, quality: quality === undefined ? 1 : Number(quality) };
    })
    .filter(({ type, quality }) => type !== '' && quality > 0)
    .sort((a, b) => b.quality - a.quality)
    .map(({ type }) => type);
}
