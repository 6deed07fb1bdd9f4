// Bits of the logit of an id that can't be drawn: the lowest finite f32.
const MASKED_LOGIT = 0xff7fffffu;
