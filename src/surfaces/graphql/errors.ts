/** Errors of a GraphQL answer: what went wrong in an operation, and what is wrong with a document. */

import { GraphQLError, type GraphQLFormattedError } from 'graphql';
import { errors, PenstockError } from '../../kernel/errors.ts';
import { shortened, storable } from '../../kernel/text.ts';

/** Codes of what is wrong with a document, as GraphQL servers commonly name them. */
export type DocumentCode =
  | 'GRAPHQL_PARSE_FAILED'
  | 'GRAPHQL_VALIDATION_FAILED'
  | 'GRAPHQL_LIMIT_EXCEEDED'
  | 'OPERATION_RESOLUTION_FAILURE'
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
export const tooMuch = (message: string): RefusedDocument => new RefusedDocument('GRAPHQL_LIMIT_EXCEEDED', [new GraphQLError(message)]);

export interface ErrorContext {
  readonly requestId: string;
  /** Whether messages may suggest names of the schema. */
  readonly suggestions: boolean;
  /** Told about what is our own fault. */
  onFault(error: unknown): void;
}

export type ErrorBody = GraphQLFormattedError;

/** Something that is wrong with the document as a whole. */
export function documentErrors(refused: RefusedDocument, context: ErrorContext): readonly ErrorBody[] {
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
  if (!known) context.onFault(error.originalError ?? error);
  const shown = known ?? errors.INTERNAL_SERVER_ERROR();
  return {
    message: shown.message,
    ...placeOf(error),
    ...(error.path ? { path: error.path } : {}),
    extensions: extensionsOf(shown, context),
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
    ...(error.retryAfter === undefined ? {} : { retryAfter: Math.max(1, Math.ceil(error.retryAfter)) }),
  };
}

const placeOf = ({ locations }: GraphQLError): Pick<ErrorBody, 'locations'> => (locations?.length ? { locations } : {});

/** Characters of a message: it may quote what was sent. */
const MAX_MESSAGE = 500;

function messageOf(message: string, { suggestions }: ErrorContext): string {
  // Cut first: what is searched must not be as long as somebody wants it to be.
  const short = storable(shortened(message, MAX_MESSAGE));
  return suggestions ? short : short.replace(/ ?Did you mean .*$/s, '');
}
