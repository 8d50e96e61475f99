/** What users chose: which kinds of messages they get on which channel, their language, and when they are left alone. */
import type { Kernel } from '../../../host/kernel.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { CommunicationsConfig } from '../config.ts';
import { allButCritical } from '../feedback-queries.ts';
import {
  type ChoicesRow,
  choicesOf,
  countPreferences,
  liftUnsubscribes,
  lockSettings,
  type Preference,
  savePreferences,
  saveSettings,
} from '../preference-queries.ts';
import type { Channel } from '../queries.ts';
import { isTimezone, minutesOf, type QuietHours, quietUntil } from '../readers.ts';

/** What a user said at once; what is not named stays. */
export interface ChoicesChange {
  readonly preferences?: readonly Preference[] | undefined;
  readonly locale?: string | null | undefined;
  readonly timezone?: string | null | undefined;
  /** `null`: as configured. */
  readonly quietHours?: { readonly start: string; readonly end: string } | null | undefined;
}

export interface Preferences {
  get(userId: string): Promise<ChoicesRow>;
  /** Throws 400. */
  change(userId: string, change: ChoicesChange): Promise<ChoicesRow>;
  /** Of many at once, by user. */
  choices(
    transaction: Queryable,
    userIds: readonly string[],
  ): Promise<ReadonlyMap<string, ChoicesRow>>;
  /** When a message that may wait goes to this user; nothing: at once. */
  waitsUntil(choices: ChoicesRow, at?: Date): Date | undefined;
}

/** Choices that one user may keep. */
const max = 500;

export const createPreferences = ({
  database,
  config,
}: Pick<Kernel, 'database'> & { readonly config: () => CommunicationsConfig }): Preferences => {
  const choices: Preferences['choices'] = async (transaction, userIds) =>
    new Map((await choicesOf(transaction, userIds)).map((row) => [row.userId, row]));
  const get = async (userId: string): Promise<ChoicesRow> =>
    (await choices(database, [userId])).get(userId) ?? noChoices(userId);
  return {
    get,
    choices,
    async change(userId, change) {
      const settings = settingsOf(change);
      await database.transaction(async (transaction) => {
        const before = await lockSettings(transaction, userId);
        await saveSettings(transaction, userId, { ...noChoices(userId), ...before, ...settings });
        const { preferences = [] } = change;
        if (preferences.length === 0) return;
        await savePreferences(transaction, userId, lastOfEach(preferences));
        const requested = preferences.filter(({ enabled }) => enabled);
        if (requested.length > 0) await liftUnsubscribes(transaction, userId, requested);
        if ((await countPreferences(transaction, userId)) > max)
          throw invalid('preferences', 'maxItems', `a user keeps at most ${max} choices`);
      });
      return get(userId);
    },
    waitsUntil(row, at = new Date()) {
      const hours = hoursOf(row, config());
      return hours && quietUntil(at, hours);
    },
  };
};

const noChoices = (userId: string): ChoicesRow => ({
  userId,
  locale: null,
  timezone: null,
  quietStart: null,
  quietEnd: null,
  preferences: [],
});

const lastOfEach = (preferences: readonly Preference[]): readonly Preference[] => [
  ...new Map(preferences.map((one) => [`${one.category} ${one.channel}`, one])).values(),
];

function settingsOf({ locale, timezone, quietHours }: ChoicesChange): Partial<ChoicesRow> {
  if (timezone && !isTimezone(timezone))
    throw invalid('timezone', 'timezone', 'must be a name like Europe/Athens');
  const hours = quietHours && {
    quietStart: requireClock('quietHours.start', quietHours.start),
    quietEnd: requireClock('quietHours.end', quietHours.end),
  };
  return {
    ...(locale === undefined ? {} : { locale }),
    ...(timezone === undefined ? {} : { timezone }),
    ...(quietHours === null ? { quietStart: null, quietEnd: null } : hours),
  };
}

function requireClock(path: string, text: string): number {
  const minutes = minutesOf(text);
  if (minutes === undefined) throw invalid(path, 'time', 'must be a time like 22:30');
  return minutes;
}

function hoursOf(
  { quietStart, quietEnd, timezone }: ChoicesRow,
  { quietHours }: CommunicationsConfig,
): QuietHours | undefined {
  const start = quietStart ?? minutesOf(quietHours.start);
  const end = quietEnd ?? minutesOf(quietHours.end);
  if (start === undefined || end === undefined || start === end) return undefined;
  return { start, end, timezone: timezone ?? quietHours.timezone };
}

/** Whether a user wants this kind of message on this channel: what is said about it goes before what is said about all. */
export function isEnabled(
  { preferences }: Pick<ChoicesRow, 'preferences'>,
  category: string,
  channel: Channel | 'inbox',
): boolean {
  const of = (requested: string) =>
    preferences.find((one) => one.category === requested && one.channel === channel)?.enabled;
  return of(category) ?? of(allButCritical) ?? true;
}
