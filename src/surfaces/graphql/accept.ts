/** Which form of answer a client takes (GraphQL over HTTP, "Media Types"). */

export interface AnswerForm {
  readonly contentType: string;
  /** The status of an answer without data: its request was read but not run. */
  readonly refusedStatus: 200 | 400;
}

const charset = '; charset=utf-8';
const graphqlJson: AnswerForm = { contentType: `application/graphql-response+json${charset}`, refusedStatus: 400 };
/** Clients that take whatever comes read the status. */
const anyJson: AnswerForm = { contentType: `application/json${charset}`, refusedStatus: 400 };
/** Clients that ask for this type alone read the body, and take another status for a fault of something in between. */
const plainJson: AnswerForm = { contentType: `application/json${charset}`, refusedStatus: 200 };

/** Characters of the header that are looked at. */
const MAX_ACCEPT = 1_000;

export function answerForm(accept: string | undefined): AnswerForm {
  const types = acceptedTypes(accept);
  const preferred = types.find((type) => type === 'application/graphql-response+json' || type === 'application/json');
  if (preferred === 'application/graphql-response+json') return graphqlJson;
  return preferred && !types.some((type) => type.endsWith('*')) ? plainJson : anyJson;
}

/** Whether a browser asks for a page. */
export const acceptsPage = (accept: string | undefined): boolean => acceptedTypes(accept).includes('text/html');

/** The types of the header, the most wanted first. */
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
