/** The names under which receivers know events. */
import type { PublishedEvent } from '../../../kernel/events/events.ts';

/** What happened to a record. */
export const verbs = { insert: 'created', update: 'updated', delete: 'deleted' } as const;

/** `record.created`, `authentication.register.user`. */
export const typeOf = ({ topic, operation, schema }: PublishedEvent): string =>
  operation !== undefined && schema !== undefined
    ? `record.${verbs[operation]}`
    : topic.replaceAll(':', '.');
