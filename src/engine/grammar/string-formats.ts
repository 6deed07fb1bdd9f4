const DAY = '((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))';
const DATE = `[12][0-9]{3}-${DAY}`;
const TIME = '([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])';
const LABEL = '[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?';
const HOST = `${LABEL}(\\.${LABEL}){0,3}`;
const LOCAL = '[A-Za-z0-9_+-]{1,24}(\\.[A-Za-z0-9_+-]{1,24}){0,2}';
const HEX = '[0-9a-f]{1,4}';
const BYTE = '(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])';
const PATH = "(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})*)*";

/** Regular expressions whose texts are right by JSON Schema's formats; of each format, the usual part. */
export const STRING_FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}T${TIME}`,
  duration: 'P([0-9]{1,4}W|[0-9]{1,4}D(T[0-9]{1,2}H)?|T[0-9]{1,4}[HMS])',
  email: `${LOCAL}@${HOST}\\.[a-z]{2,8}`,
  hostname: HOST,
  ipv4: `${BYTE}(\\.${BYTE}){3}`,
  ipv6: `((${HEX}:){7}${HEX}|::(${HEX}:){0,5}${HEX}|(${HEX}:){1,6}:${HEX})`,
  uuid: '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}',
  uri: `[a-z][a-z0-9+.-]{0,11}://${HOST}(:[0-9]{1,4})?${PATH}(\\?[A-Za-z0-9._~=&-]*)?(#[A-Za-z0-9._~-]*)?`,
};
