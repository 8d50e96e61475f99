/** Configuration of forms (specification forms.md section 4). */
import Type, { type Static } from 'typebox';
import { defineConfig, harmless } from '../../kernel/config/config-definition.ts';

const MEGABYTE = 1_048_576;

type Bounds = readonly [minimum: number, maximum: number];
const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });
const whole = (value: number, [minimum, maximum]: Bounds, description: string) =>
  Type.Integer({ default: value, minimum, maximum, description });
const tuned = (value: number, [minimum, maximum]: Bounds, description: string) =>
  Type.Integer({ ...harmless, default: value, minimum, maximum, description });

const limits = Type.Object({
  fields: tuned(50, [1, 200], 'Fields of one form.'),
  valueLength: tuned(10_000, [1, 100_000], 'Characters of one value.'),
  fileSize: whole(10 * MEGABYTE, [1, 100 * MEGABYTE], 'Bytes of one file.'),
  files: whole(5, [0, 20], 'Files of one submission.'),
  submissionsPerFormPerIpPerHour: tuned(
    20,
    [1, 100_000],
    'Attempts that one address has at one form in an hour. IPv6: each /64.',
  ),
  forwardsPerFormPerHour: tuned(
    100,
    [0, 100_000],
    'Submissions of one form that are forwarded by mail in an hour. More are stored and not forwarded.',
  ),
  mailsPerAddressPerHour: tuned(
    3,
    [1, 1_000],
    'Replies and requests for confirmation that the forms send to one address in an hour.',
  ),
});

const spam = Type.Object({
  honeypotField: Type.String({
    default: 'website_url',
    maxLength: 64,
    pattern: '^([A-Za-z_][A-Za-z0-9_.-]*)?$',
    description:
      'Name of a field that people do not see. Who fills it in counts as a program. Empty: there is none.',
  }),
  minFillSeconds: tuned(
    2,
    [0, 3_600],
    'Who is done sooner after asking for a challenge counts as a program.',
  ),
  maxLinks: tuned(5, [0, 1_000], 'Links in one submission; with more it counts as spam.'),
  repeats: tuned(
    3,
    [0, 1_000],
    'The so-and-so-many-th submission of the same content in a day counts as spam. 0: none does.',
  ),
  proofOfWork: flag(
    false,
    'Every form wants a solved challenge, whatever it says itself. Plain HTML pages cannot solve one.',
  ),
  difficulty: whole(
    16,
    [1, 24],
    'Leading zero bits of a solution. Each more doubles the work; 16 are about a second in a browser.',
  ),
  lookup: Type.Union([Type.Literal('none'), Type.Literal('stopforumspam')], {
    default: 'none',
    description:
      'A public list that addresses of submitters are looked up in. That gives them to its operator.',
  }),
  lookupUrl: Type.String({
    default: '',
    maxLength: 500,
    pattern: '^(https?://.+)?$',
    description: 'Another address that answers in the same way. Empty: that of the list.',
  }),
  lookupTimeoutMs: tuned(
    1_500,
    [100, 30_000],
    'Milliseconds for the list to answer. Without an answer the submission counts as none of spam.',
  ),
});

export const formsConfig = defineConfig({
  schema: Type.Object({
    captcha: flag(
      false,
      'Every submission needs a captcha, while captchas are switched on in the router.',
    ),
    useAttachments: flag(true, 'Forms take files.'),
    limits,
    spam,
    doubleOptIn: Type.Object({
      expiryHours: tuned(
        48,
        [1, 720],
        'Hours in which a submitter may confirm. What is not confirmed is deleted then.',
      ),
    }),
    mail: Type.Object({
      fileLinkDays: whole(
        7,
        [1, 365],
        'Days for which links to files in forwarded submissions work.',
      ),
    }),
    retention: Type.Object({
      days: whole(0, [0, 3_650], 'Days after which submissions are deleted. 0: never.'),
    }),
  }),
});

export type FormsConfig = Static<typeof formsConfig.schema>;
